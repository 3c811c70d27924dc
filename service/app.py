"""The composition root: builds everything once from settings and rules, runs it, and takes it down in order.

    data loop (this thread, uvloop)   the proxy, the ticker, what the router says of itself
    admin thread                      health, metrics, incidents, cases, live streams, the router's reach
    writer thread                     the store

Shutdown: readiness off, nothing new taken, open streams end within the grace time and the rest loudly, then
the store writes what waits. A second signal ends the grace time.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

import structlog
import uvicorn
import uvloop
from pydantic import SecretStr

from service.config import RuleSet, Settings
from service.core.cache_watch import CacheWatch
from service.core.desk import Desk
from service.core.events import Policy
from service.core.governor import Governor
from service.edges.admin import AdminServer, listener
from service.edges.api import Admin, create_app
from service.edges.cache_reader import CacheReader
from service.edges.dataplane import DataPlane
from service.edges.explaining import Explaining
from service.edges.health import Health
from service.edges.live import LiveBoard
from service.edges.metrics import Metrics
from service.edges.proxy import Proxy
from service.edges.pulse import Pulse
from service.edges.reach import watch_router
from service.edges.records import Records
from service.edges.store import Store, new_salt
from service.edges.tasks import Tasks
from service.edges.writer import Writer

SWITCH_S: Final = 0.0005
"""How long the data loop may wait for the interpreter behind another thread; Python's own is 5 ms."""

Started = Callable[[int, int], None]
"""Told the data and the admin port once both answer."""

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
    """Everything that needs no running loop, built and not yet started."""

    settings: Settings
    desk: Desk
    health: Health
    metrics: Metrics
    store: Store
    records: Records
    board: LiveBoard
    cache: CacheWatch = field(default_factory=CacheWatch)

    def admin_app(self) -> Any:  # noqa: ANN401 - an ASGI app
        return create_app(
            Admin(
                self.health,
                self.metrics,
                self.records,
                self.store,
                self.board,
                self.desk.watch,
                self.cache,
                admin_token=_revealed(self.settings.admin_token),
                metrics_token=_revealed(self.settings.metrics_token),
            )
        )


def build(settings: Settings, rules: RuleSet) -> Sidecar:
    routes = settings.route_table()
    metrics = Metrics(routes=routes.names, detectors=[detector.name for detector in rules.detectors])
    metrics.describe(
        version=version("specguard"),
        settings=settings.digest(),
        rules=rules.digest,
        ruleset=rules.name,
        policies=routes.policies,
    )
    policies = {settings.policy, *(route.policy for route in settings.routes)}
    salt = new_salt(_revealed(settings.capture_salt))
    return Sidecar(
        settings=settings,
        desk=Desk(
            rules.detectors,
            rules.fusion,
            governor=Governor(settings.abort),
            held_max=settings.limits.held_bytes,
            offline=settings.offline,
        ),
        health=Health(fails_closed=Policy.STRICT in policies),
        metrics=metrics,
        store=_store(settings, metrics, salt),
        records=Records(settings.store, salt),
        board=LiveBoard(),
    )


def _store(settings: Settings, metrics: Metrics, salt: bytes) -> Store:
    writer = Writer(
        settings.store, metrics, capture=settings.capture, salt=salt, retention=settings.retention
    )
    return Store(writer, metrics, capture=settings.capture)


def _revealed(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def run(settings: Settings, rules: RuleSet, started: Started) -> None:
    """Serve until a signal. Raises `PortTakenError`."""
    sys.setswitchinterval(SWITCH_S)
    uvloop.run(serve(build(settings, rules), started))


async def serve(sidecar: Sidecar, started: Started) -> None:
    """The life of the process, from bound ports to the last row written."""
    settings = sidecar.settings
    with (
        _bound("data", settings.data_host, settings.data_port) as data,
        _bound("admin", settings.admin_host, settings.admin_port) as private,
    ):
        admin = AdminServer(
            sidecar.admin_app(),
            private,
            lambda: watch_router(settings.router, sidecar.health),
            CacheReader(sidecar.desk.watch.turns, sidecar.cache, sidecar.metrics).run,
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
    """The data loop, until a signal and the end of the streams."""
    pulse = _pulse(sidecar)
    plane = DataPlane(
        sidecar.settings, sidecar.desk, Explaining(sidecar.desk.watch, sidecar.store.keep), on_tick=pulse
    )
    pulse.watch(plane.proxy.means.live, plane.ticker)
    server = DataServer(plane.config())
    stop = _signals()
    own = Tasks()
    await plane.start()
    serving = own.spawn(server.serve(sockets=[bound]), "data-server")
    sidecar.health.accepting = True
    started()
    await _asked_to_stop(stop, serving)
    sidecar.health.accepting = False
    await _drained(plane.proxy, stop, sidecar.settings.timeouts.drain_s)
    server.should_exit = True
    await serving
    await plane.stop()


def _pulse(sidecar: Sidecar) -> Pulse:
    return Pulse(
        sidecar.desk,
        sidecar.metrics,
        sidecar.health,
        sidecar.board,
        streams_max=sidecar.settings.limits.streams,
        waiting=sidecar.store,
    )


def _bound(what: str, host: str, port: int) -> socket.socket:
    try:
        return listener(host, port)
    except OSError as refused:
        why = os.strerror(refused.errno) if refused.errno and refused.errno > 0 else str(refused)
        raise PortTakenError(f"{what} port {host}:{port}: {why}") from None


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


async def _asked_to_stop(stop: "asyncio.Queue[int]", serving: asyncio.Task[None]) -> None:
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
