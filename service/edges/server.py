"""How uvicorn is run on the data port, and the check that its `send` can be stepped.

The options are part of the contract: httptools parses strictly, no middleware stands between the app and the
server, `date` and `server` are the router's own, forwarded-for headers are not believed. The check starts the
very same server on a free loopback port once, at start-up, and does there what the stream path does all day;
a uvicorn or a loop that has changed under us costs some speed (a task an exchange), never a stream.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
import uvicorn
from uvicorn.server import ServerState

from service.edges.outlet import Outlet, Receive, Send
from service.edges.tasks import Tasks

App = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]

KEEP_ALIVE_S: Final = 75
"""Gateways in front keep their pools for a minute; we must not close first and fail their next POST."""
CHECK_S: Final = 5.0
FILL_BYTES: Final = 16 * 1024 * 1024
"""More than both socket buffers of a loopback connection take."""

_log = structlog.get_logger(__name__)


class _Intended(logging.Filter):
    """Drop the line that says a response was left incomplete: that is how we show a broken end."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != "ASGI callable returned without completing response."


def data_config(app: App, *, host: str, port: int, grace_s: float = 0.0) -> uvicorn.Config:
    """The data port's server."""
    logging.getLogger("uvicorn.error").addFilter(_INTENDED)
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=round(grace_s) or None,
    )


async def send_can_be_stepped(config: Callable[[App], uvicorn.Config] | None = None) -> bool:
    """Whether a send outside any task is done in one step, and goes on where it had to wait."""
    try:
        async with asyncio.timeout(CHECK_S):
            steps = await _try_stepping(config or (lambda app: data_config(app, host="127.0.0.1", port=0)))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here, a task an exchange is the answer
        _log.warning("send_check_failed", error=type(error).__name__)
        return False
    return steps


async def _try_stepping(config: Callable[[App], uvicorn.Config]) -> bool:
    probe = _Probe()
    made = config(probe)
    made.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: made.http_protocol_class(config=made, server_state=state, app_state={}),  # type: ignore[call-arg]
        "127.0.0.1",
        0,
    )
    try:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nhost: check\r\nconnection: close\r\n\r\n")
        blocked = await probe.blocked()
        received = len(await reader.read(-1))
        writer.close()
        await writer.wait_closed()
        return blocked and probe.one_step and probe.freed and received > FILL_BYTES
    finally:
        server.close()


class _Probe:
    """An app that does what the stream path does, and the valve that watches it."""

    def __init__(self) -> None:
        self.one_step = self.freed = False
        self._blocked = asyncio.Event()
        self._tasks = Tasks()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        outlet = Outlet(send, self, self._tasks, stepped=True)
        asyncio.get_running_loop().call_soon(self._outside_any_task, outlet)
        await self._blocked.wait()
        await outlet.flushed()

    async def blocked(self) -> bool:
        await self._blocked.wait()
        return not self.freed

    def _outside_any_task(self, outlet: Outlet) -> None:
        outlet.head(200, [])
        outlet.body(b"x")
        self.one_step = len(self._tasks) == 0
        outlet.body(b"x" * FILL_BYTES)
        outlet.end(b"x")  # finds the socket full
        if not len(self._tasks):
            self._blocked.set()

    def on_blocked(self) -> None:
        self._blocked.set()

    def on_free(self) -> None:
        self.freed = True

    def on_fault(self) -> None:
        self._blocked.set()


_INTENDED: Final = _Intended()
