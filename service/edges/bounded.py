"""uvicorn's HTTP protocol with what it lacks: bounds on a request's head, answers that HTTP/1.0 can read.

A head that never ends would grow in memory for as long as its client sends (and a connection that never sends
one would stay for ever). Both are closed here, with an answer where one can be given; a head that did arrive
is held to the settings' own limit by the app. Chunked coding is unknown before HTTP/1.1 (RFC 9112, 6.1):
there a body ends with its connection, and one that broke off ends with a reset, or it would pass for whole.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.edges.outlet import Message, Receive, Send

HEAD_BYTES_MAX: Final = 128 * 1024
"""Twice what the parser may be fed in one read before we look; the app's own limit is stricter."""
HEAD_S: Final = 30.0
"""For a whole head to arrive, from the connection or from the head's first byte."""

TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)
TOO_LATE: Final = (
    b"HTTP/1.1 408 Request Timeout\r\n"
    b"content-type: text/plain\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time at all."""


class BoundedProtocol(HttpToolsProtocol):
    """One client's connection."""

    head_bytes_max = HEAD_BYTES_MAX
    head_s = HEAD_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as uvicorn makes it
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._awaits_head = True
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._awaits_head or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.head_bytes_max:
            self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._awaits_head, self._head_bytes = True, 0
        if self._late is None:
            self._watch()

    def on_headers_complete(self) -> None:
        self._awaits_head = False
        self._unwatch()
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        unchunked = cycle.scope["http_version"] != "1.1"
        super()._start_asgi_task(cycle, cast("Any", _UntilClose(app, cycle)) if unchunked else app)

    def _watch(self) -> None:
        self._late = self.loop.call_later(self.head_s, self._refuse, TOO_LATE)

    def _unwatch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, answer: bytes) -> None:
        """Say why where no response is under way, and close."""
        self._unwatch()
        cycle = cast("RequestResponseCycle | None", self.cycle)  # uvicorn's None before the first request
        if cycle is None or cycle.response_complete:
            self.transport.write(answer)
        self.transport.close()


class _UntilClose:
    """The app of one request whose client knows no chunked coding."""

    def __init__(self, app: Any, cycle: RequestResponseCycle) -> None:  # noqa: ANN401 - as uvicorn has it
        self._app = app
        self._cycle = cycle

    def __repr__(self) -> str:
        return f"<_UntilClose {self._cycle.scope['http_version']}>"

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, _: Send) -> None:
        cycle = self._cycle
        cycle.chunked_encoding = False
        await self._app(scope, receive, self._send)
        if cycle.response_started and not (cycle.response_complete or cycle.disconnected):
            self._reset()

    async def _send(self, message: Message) -> None:
        """The server counts a body down from its declared length; here each piece declares its own."""
        self._cycle.expected_content_length = len(message.get("body", b""))
        await self._cycle.send(cast("Any", message))

    def _reset(self) -> None:
        transport = self._cycle.transport
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        transport.abort()
