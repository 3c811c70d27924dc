"""How uvicorn is run on the data port, and which way of sending works on it.

The options are part of the contract: httptools parses strictly, no middleware stands between the app and the
server, `date` and `server` are the router's own, forwarded-for headers are not believed. The check starts the
very same server on a free loopback port once, at start-up, and does there what the stream path does all day;
a uvicorn or a loop that has changed under us costs some speed (at worst a task an exchange), never a stream.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
import uvicorn
from uvicorn.server import ServerState

from service.edges.bounded import BoundedProtocol
from service.edges.outlet import Outlet, Receive, Send, Sending, direct_writer
from service.edges.tasks import Tasks

App = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]

KEEP_ALIVE_S: Final = 75
"""Gateways in front keep their pools for a minute; we must not close first and fail their next POST."""
CHECK_S: Final = 5.0
FILL_BYTES: Final = 16 * 1024 * 1024
"""More than both socket buffers of a loopback connection take."""

UNSAID: Final = (
    "ASGI callable returned without completing response.",
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "No supported WebSocket library detected.",
)

_log = structlog.get_logger(__name__)


class _Intended(logging.Filter):
    """Drop uvicorn's lines on what is meant so, or what any stranger could fill the log with at will.

    A response left incomplete is how we show a broken end; a client's bad HTTP has been answered with a 400;
    and no websocket library is missing here.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(UNSAID)


def data_config(app: App, *, host: str, port: int, grace_s: float = 0.0) -> uvicorn.Config:
    """The data port's server."""
    logging.getLogger("uvicorn.error").addFilter(_INTENDED)
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=BoundedProtocol,
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


async def best_sending(config: Callable[[App], uvicorn.Config] | None = None) -> Sending:
    """The fastest way of sending that works outside any task, and goes on where it had to wait."""
    made = config or (lambda app: data_config(app, host="127.0.0.1", port=0))
    for sending in (Sending.DIRECT, Sending.STEPPED):
        try:
            async with asyncio.timeout(CHECK_S):
                if await _works(sending, made):
                    return sending
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here, the next slower way is the answer
            _log.warning("send_check_failed", error=type(error).__name__)
    return Sending.TASK


async def _works(sending: Sending, config: Callable[[App], uvicorn.Config]) -> bool:
    probe = _Probe(sending)
    made = config(probe)
    made.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: made.http_protocol_class(config=made, server_state=state, app_state={}),  # type: ignore[call-arg]
        "127.0.0.1",
        0,
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        writer.write(b"GET / HTTP/1.1\r\nhost: check\r\nconnection: close\r\n\r\n")
        blocked = await probe.blocked()
        received = await reader.read(-1)
        return blocked and probe.one_step and probe.freed and received.endswith(_expected())
    finally:
        writer.close()
        server.close()


def _expected() -> bytes:
    """The body that the probe sends, as it must come out."""
    fill = b"%x\r\n%b\r\n" % (FILL_BYTES, b"x" * FILL_BYTES)
    return b"\r\n\r\n1\r\nx\r\n" + fill + b"1\r\ny\r\n1\r\nz\r\n0\r\n\r\n"


class _Probe:
    """An app that does what the stream path does, and the valve that watches it."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self.one_step = self.freed = False
        self._blocked = asyncio.Event()
        self._tasks = Tasks()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        outlet = Outlet(send, self, self._tasks, self._sending)
        if self._sending is Sending.DIRECT and direct_writer(send) is None:  # another server's
            self._blocked.set()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
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
        outlet.body(b"y")  # finds the socket full
        outlet.end(b"z")
        if not len(self._tasks):
            self._blocked.set()

    def on_blocked(self) -> None:
        self._blocked.set()

    def on_free(self) -> None:
        self.freed = True

    def on_fault(self) -> None:
        self._blocked.set()


_INTENDED: Final = _Intended()
