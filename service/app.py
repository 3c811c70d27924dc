"""The composition root: builds everything once from settings and rules, runs it, and takes it down in order.

    data loop (this thread, uvloop)   the proxy, the ticker, what the router says of itself
    admin thread                      health, metrics, incidents, cases, live streams, the router's reach
    writer thread                     the store

Shutdown: readiness off, nothing new taken, open streams end within the grace time and the rest loudly, then
the store writes what waits. A second signal ends the grace time.
"""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import structlog
import uvicorn
import uvloop

from service.config import RuleSet, Settings
from service.core.desk import Desk
from service.core.dialects import DIALECTS
from service.core.events import UNKNOWN, Policy
from service.core.governor import Governor
from service.edges.admin import AdminServer, listener
from service.edges.api import Admin, create_app
from service.edges.guard import Guard
from service.edges.health import Health
from service.edges.live import LiveBoard
from service.edges.metrics import Metrics
from service.edges.pins import PinBook
from service.edges.proxy import Proxy
from service.edges.pulse import Pulse
from service.edges.reach import watch_router
from service.edges.records import Records
from service.edges.relay import Means
from service.edges.router_admin import RouterAdmin, admin_client
from service.edges.server import data_config, send_can_be_stepped
from service.edges.store import Store, new_salt
from service.edges.tasks import Tasks
from service.edges.ticker import Ticker
from service.edges.upstream import Limits as UpstreamLimits
from service.edges.upstream import Upstream
from service.edges.upstream_aiohttp import AiohttpUpstream
from service.edges.upstream_raw import RawUpstream
from service.edges.writer import Writer

SWITCH_S: Final = 0.0005
"""How long the data loop may wait for the interpreter behind another thread; Python's own is 5 ms."""

UPSTREAMS: Final[dict[str, Callable[[str, UpstreamLimits], Upstream]]] = {
    "raw": RawUpstream,
    "aiohttp": AiohttpUpstream,
}

_log = structlog.get_logger(__name__)


class PortTakenError(OSError):
    """Guilty: the machine, or the settings. The message names the address."""


class DataServer(uvicorn.Server):
    """uvicorn without its own signal handling: the order of shutdown is ours."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Everything, built and not yet started."""

    settings: Settings
    desk: Desk
    health: Health
    metrics: Metrics
    store: Store
    records: Records
    board: LiveBoard
    pins: PinBook

    def admin_app(self) -> Any:  # noqa: ANN401 - an ASGI app
        tokens = (self.settings.admin_token, self.settings.metrics_token)
        admin_token, metrics_token = (token.get_secret_value() if token else None for token in tokens)
        return create_app(
            Admin(self.health, self.metrics, self.records, self.store, self.board, admin_token, metrics_token)
        )


def build(settings: Settings, rules: RuleSet) -> Sidecar:
    """Wire what needs no running loop."""
    routes = settings.route_table()
    metrics = Metrics(routes=routes.names, detectors=[detector.name for detector in rules.detectors])
    metrics.describe(version=version("specguard"), settings=settings.digest(), rules=rules.digest)
    desk = Desk(
        rules.detectors, rules.fusion, governor=Governor(settings.abort), held_max=settings.limits.held_bytes
    )
    for hint in settings.workers:
        desk.fleet.know(hint.url, hint.drafter, hint.draft_tokens or UNKNOWN)
    salt = settings.capture_salt.get_secret_value() if settings.capture_salt else None
    writer = Writer(
        settings.store,
        metrics,
        capture=settings.capture,
        salt=new_salt(salt),
        retention=settings.retention,
    )
    return Sidecar(
        settings=settings,
        desk=desk,
        health=Health(fails_closed=_fails_closed(settings)),
        metrics=metrics,
        store=Store(writer, metrics, capture=settings.capture),
        records=Records(settings.store),
        board=LiveBoard(),
        pins=PinBook(),
    )


def _fails_closed(settings: Settings) -> bool:
    policies = {settings.policy, *(route.policy for route in settings.routes)}
    return Policy.STRICT in policies


def run(settings: Settings, rules: RuleSet, started: Callable[[int, int], None] = lambda *_: None) -> None:
    """Serve until a signal; `started` is told the data and the admin port. Raises `PortTakenError`."""
    sidecar = build(settings, rules)
    sys.setswitchinterval(SWITCH_S)
    uvloop.run(serve(sidecar, started))


async def serve(sidecar: Sidecar, started: Callable[[int, int], None]) -> None:
    """The life of the process, from bound ports to the last row written."""
    settings = sidecar.settings
    data = _bound("data", settings.data_host, settings.data_port)
    admin = AdminServer(
        sidecar.admin_app(),
        _bound("admin", settings.admin_host, settings.admin_port),
        lambda: watch_router(settings.router, sidecar.health),
    )
    sidecar.store.start()
    admin.start()
    try:
        await _serve_data(sidecar, data, lambda: started(data.getsockname()[1], admin.port))
    finally:
        sidecar.health.accepting = False
        await asyncio.to_thread(sidecar.store.stop)
        await asyncio.to_thread(admin.stop)


async def _serve_data(sidecar: Sidecar, bound: socket.socket, started: Callable[[], None]) -> None:
    """The data loop."""
    settings = sidecar.settings
    means = await _means(sidecar)
    proxy = Proxy(
        means,
        dialects=DIALECTS,
        routes=settings.route_table(),
        limits=settings.limits,
        timeouts=settings.timeouts,
    )
    server = DataServer(
        data_config(
            proxy, host=settings.data_host, port=settings.data_port, grace_s=settings.timeouts.drain_s
        )
    )
    stop = _signals()
    serving = means.tasks.spawn(server.serve(sockets=[bound]), "data-server")
    async with admin_client() as client:
        _beside(sidecar, means, proxy, client)
        gc.collect()
        gc.freeze()  # what was built at start is never garbage: full collections need not walk it
        sidecar.health.accepting = True
        started()
        await _either(stop, serving)
        sidecar.health.accepting = False
        await _drained(proxy, stop, settings.timeouts.drain_s)
        server.should_exit = True
        await serving
        await means.tasks.cancel()
    await means.upstream.close()


async def _means(sidecar: Sidecar) -> Means:
    """What needs the running loop."""
    settings = sidecar.settings
    limits = UpstreamLimits(connect_s=settings.timeouts.connect_s, idle_s=settings.timeouts.pool_idle_s)
    return Means(
        upstream=UPSTREAMS[settings.upstream](settings.router, limits),
        desk=sidecar.desk,
        tasks=Tasks(),
        pins=sidecar.pins,
        keep=sidecar.store.keep,
        stepped=await send_can_be_stepped(),
        ask_growth=settings.ask_growth,
        first_byte_s=settings.timeouts.first_byte_s,
        drain_s=settings.timeouts.drain_s,
    )


def _beside(sidecar: Sidecar, means: Means, proxy: Proxy, client: Any) -> None:  # noqa: ANN401 - httpx's
    """What runs on the data loop beside the streams."""
    hinted = [hint.url for hint in sidecar.settings.workers]
    watch = RouterAdmin(
        sidecar.settings.router, sidecar.desk.fleet, sidecar.pins, hinted=hinted, client=client
    )
    pulse = Pulse(
        sidecar.desk,
        sidecar.metrics,
        sidecar.health,
        live=means.live,
        streams_max=sidecar.settings.limits.streams,
        waiting=sidecar.store,
    )
    ticker = Ticker(proxy.tick, pulse, lambda now: _publish(sidecar.board, means, now))
    pulse.ticker = ticker
    means.tasks.spawn(watch.run(), "router-admin")
    means.tasks.spawn(ticker.run(), "ticker")


def _publish(board: LiveBoard, means: Means, now: float) -> None:
    guards = (relay.seen for relay in means.live if isinstance(relay, Guard))
    board.publish(now, len(means.live), guards)


def _bound(what: str, host: str, port: int) -> socket.socket:
    try:
        return listener(host, port)
    except OSError as refused:
        raise PortTakenError(f"{what} port {host}:{port}: {refused.strerror or refused}") from None


def _signals() -> "asyncio.Queue[int]":
    """SIGINT and SIGTERM, in order."""
    heard: asyncio.Queue[int] = asyncio.Queue(maxsize=8)

    def hear(number: int) -> None:
        _log.info("signal", signal=signal.Signals(number).name)
        if not heard.full():
            heard.put_nowait(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, hear, number)
    return heard


async def _either(stop: "asyncio.Queue[int]", serving: asyncio.Task[None]) -> None:
    """Until a signal, or until the server has ended by itself."""
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(stop.get(), name="signal")
        serving.add_done_callback(lambda _: asked.cancel())


async def _drained(proxy: Proxy, stop: "asyncio.Queue[int]", grace_s: float) -> None:
    """Let open streams end; a second signal ends the grace time."""
    async with asyncio.TaskGroup() as group:
        again = group.create_task(stop.get(), name="second-signal")
        drain = group.create_task(proxy.drain(grace_s), name="drain")
        again.add_done_callback(lambda _: drain.cancel())
        drain.add_done_callback(lambda _: again.cancel())
    if drain.cancelled():
        await proxy.drain(0)
