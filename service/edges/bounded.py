"""uvicorn's HTTP protocol with bounds on a request's head, which it lacks: in bytes and in time.

A head that never ends would grow in memory for as long as its client sends (and a connection that never sends
one would stay for ever). Both are closed here, with an answer where one can be given; a head that did arrive
is held to the settings' own limit by the app.
"""

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

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
