"""Everything that runs on the data loop, wired: upstream client, proxy, pins, router questions, one ticker.

    plane = DataPlane(settings, desk, keep)         keep(incident, kept): the store's `keep`
    await plane.start()                             self-check, tasks, a heap that the collector leaves alone
    plane.config()                                  uvicorn's, for the composition root to serve
    await plane.stop()                              drain, then let go

What start-up built lives as long as the process, so it is frozen out of every later garbage collection: a
full one over it would stop all streams for tens of milliseconds.
"""

import gc
import secrets
from collections.abc import Callable
from typing import Final

import uvicorn

from service.config.baselines import read_baselines
from service.config.settings import Settings
from service.core.desk import Desk
from service.core.dialects import DIALECTS
from service.core.events import UNKNOWN, Channel, Incident
from service.core.provenance import Provenance
from service.edges.case import Kept
from service.edges.origins import Origins
from service.edges.pins import PinBook
from service.edges.proxy import Proxy
from service.edges.relay import Means
from service.edges.router_admin import PINNED_ROLES, RouterAdmin, admin_client
from service.edges.server import best_sending, data_config
from service.edges.tasks import Tasks
from service.edges.telemetry import Telemetry
from service.edges.ticker import Ticker
from service.edges.upstream import Limits, Upstream
from service.edges.upstream_aiohttp import AiohttpUpstream
from service.edges.upstream_raw import RawUpstream

BEAT_S: Final = 0.025
"""Requests have their tick each 250 ms; asking ten times as often whose it is spreads them out."""
GC_THRESHOLD: Final = 10_000
"""Net allocations before a young collection; a stream's own objects die by reference count."""


class DataPlane:
    """The data port and what drives it."""

    def __init__(
        self,
        settings: Settings,
        desk: Desk,
        keep: Callable[[Incident, Kept], None],
        *,
        on_tick: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Make everything; must be called on the data loop."""
        self._settings = settings
        self._tasks = Tasks()
        self._client = admin_client()
        self.desk = desk
        self.pins = PinBook()
        hinted = self._know_hints()
        self.origins = origins_of(settings, desk)
        self.admin = RouterAdmin(
            settings.router,
            desk.fleet,
            self.pins,
            hinted=hinted,
            metrics=settings.telemetry.router_metrics or "",
            client=self._client,
        )
        self.telemetry = Telemetry(
            settings.telemetry, desk, self._client, self._decoders, self._prefills, router=settings.router
        )
        self.proxy = Proxy(
            Means(
                upstream=upstream_of(settings),
                desk=desk,
                tasks=self._tasks,
                pins=self.pins,
                keep=keep,
                ask_growth=settings.ask_growth,
                first_byte_s=settings.timeouts.first_byte_s,
                drain_s=settings.timeouts.drain_s,
                origins=self.origins,
                pull=self.telemetry.pull if self.telemetry.receiver is not None else None,
                engines=self.admin.engines,
                policy=lambda: self.admin.policy,
            ),
            dialects=DIALECTS,
            routes=settings.route_table(),
            limits=settings.limits,
            timeouts=settings.timeouts,
            session_header=settings.provenance.session_header,
        )
        reading = (self.origins.tick,) if self.origins is not None else ()
        self.ticker = Ticker(*reading, self.telemetry.tick, on_tick)
        self._beat = Ticker(self.proxy.tick, every_s=BEAT_S)

    def __repr__(self) -> str:
        return f"<DataPlane {self.proxy!r} {self.admin!r}>"

    def config(self) -> uvicorn.Config:
        """How the data port is served."""
        settings = self._settings
        return data_config(
            self.proxy,
            host=settings.data_host,
            port=settings.data_port,
            grace_s=settings.timeouts.drain_s,
        )

    async def start(self) -> None:
        self.proxy.means.sending = await best_sending()
        if self.origins is not None:
            self.origins.start()
        self._tasks.spawn(self.ticker.run(), "ticker")
        self._tasks.spawn(self._beat.run(), "beat")
        self._tasks.spawn(self.admin.run(), "router-admin")
        self.telemetry.start(self._tasks)
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)

    async def stop(self) -> None:
        """Let streams end, end the rest loudly, close what is open."""
        await self.proxy.drain(self._settings.timeouts.drain_s)
        await self._tasks.cancel()
        self.telemetry.close()
        if self.origins is not None:
            await self.origins.stop()
        await self.proxy.means.upstream.close()
        await self._client.aclose()

    def _prefills(self) -> tuple[str, ...]:
        return tuple(one.url for one in self.admin.workers if one.worker_type == "prefill")

    def _decoders(self) -> tuple[str, ...]:
        """The workers that decode: as the router lists them, else as the owner does."""
        listed = tuple(one.url for one in self.admin.workers if one.worker_type in PINNED_ROLES)
        return listed or self.desk.fleet.urls()

    def _know_hints(self) -> tuple[str, ...]:
        """Tell the fleet what the owner knows of workers, and what a calibration has learned of them."""
        if self._settings.baselines is not None:
            self.desk.fleet.calibrate(read_baselines(self._settings.baselines))
        for hint in self._settings.workers:
            draft_tokens = UNKNOWN if hint.draft_tokens is None else hint.draft_tokens
            self.desk.fleet.know(hint.url, hint.drafter, draft_tokens)
        return tuple(hint.url for hint in self._settings.workers)


def origins_of(settings: Settings, desk: Desk) -> Origins | None:
    """The index of who said what, where the settings ask for one and a detector asks it."""
    wanted = settings.provenance
    if not wanted.on or not any(detector.channel is Channel.PROVENANCE for detector in desk.detectors):
        return None
    index = Provenance(secrets.token_bytes(32), bits=wanted.slots_log2, recent_s=wanted.recent_s)
    return Origins(
        index, desk.count, tenant_header=wanted.tenant_header, session_header=wanted.session_header
    )


def upstream_of(settings: Settings) -> Upstream:
    """The client of the router that the settings name."""
    timeouts = settings.timeouts
    limits = Limits(connect_s=timeouts.connect_s, idle_s=timeouts.pool_idle_s)
    if settings.upstream == "aiohttp":
        return AiohttpUpstream(settings.router, limits)
    return RawUpstream(settings.router, limits)
