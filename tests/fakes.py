"""Fakes at the wire: an upstream that answers by a script, and a client that reads as told.

A script is a list of bytes (written as they are), floats (a pause, s), events (waited for) and a `Stop`. Both
ends are real loopback sockets, so what a test sees is what a router or a client would.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from enum import Enum, auto
from types import TracebackType
from typing import Self, cast

from service.edges.upstream import Request, ResponseHead, Upstream, UpstreamError
from tests.waiting import farewells


class Stop(Enum):
    """How a script ends a connection; without one it stays open for the next request."""

    CLOSE = auto()  # FIN
    RESET = auto()  # RST
    FOREVER = auto()  # stays open and says nothing more


Script = Sequence[bytes | float | asyncio.Event | Stop]

OK = b"HTTP/1.1 200 OK\r\n"


def chunked(*pieces: bytes) -> bytes:
    """Pieces in chunked coding, the end included."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def answer(body: bytes, head: bytes = OK, kind: bytes = b"text/event-stream") -> bytes:
    """A whole response with a length."""
    return b"%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (head, kind, len(body), body)


def stream(*pieces: bytes) -> bytes:
    """A whole event stream in chunked coding."""
    head = OK + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunked(*pieces)


class ScriptedUpstream:
    """The nth request gets the nth script; the last one repeats."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = 0
        self.written = 0
        self.transports: set[asyncio.Transport] = set()
        self.gone = asyncio.Event()  # the other side closed while a script was still being played
        self._server: asyncio.Server | None = None
        self._port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Scripted(self), "127.0.0.1", self._port
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Listen no more and drop every connection, as a killed router does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for transport in self.transports:
            transport.abort()
        await farewells()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def next_script(self) -> Script:
        place = min(len(self.requests) - 1, len(self._scripts) - 1)
        return self._scripts[place]

    def bodies(self) -> list[bytes]:
        return [request.partition(b"\r\n\r\n")[2] for request in self.requests]

    def heads(self) -> list[dict[bytes, bytes]]:
        """The requests' headers, names in lower case."""
        lines = [request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:] for request in self.requests]
        return [
            {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in head)}
            for head in lines
        ]


class _Scripted(asyncio.Protocol):
    def __init__(self, upstream: ScriptedUpstream) -> None:
        self._upstream = upstream
        self._data = b""
        self._play: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._upstream.transports.add(self._transport)
        self._upstream.connections += 1
        self._upstream.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.transports.discard(self._transport)
        self._upstream.open -= 1
        if self._play is not None and not self._play.done():
            self._upstream.gone.set()
            self._play.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        if not end or len(body) < length:
            return
        self._upstream.requests.append(self._data)
        self._data = b""
        script = self._upstream.next_script()
        self._play = asyncio.get_running_loop().create_task(self._run(script), name="scripted-answer")

    async def _run(self, script: Script) -> None:
        for step in script:
            if isinstance(step, bytes):
                await self._writable.wait()
                self._transport.write(step)
                self._upstream.written += len(step)
            elif isinstance(step, float):
                await asyncio.sleep(step)
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                await self._stop(step)

    async def _stop(self, stop: Stop) -> None:
        if stop is Stop.FOREVER:
            await asyncio.Event().wait()
        if stop is Stop.RESET:
            linger = struct.pack("ii", 1, 0)
            peer = cast("socket.socket", self._transport.get_extra_info("socket"))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._transport.close()
        await asyncio.sleep(0)


class ScriptedClient:
    """A client's socket: sends what it is told, reads what it is told, and leaves when it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int = 0) -> Self:
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(0)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        limit = receive_buffer or 1 << 16
        return cls(*await asyncio.open_connection(sock=sock, limit=limit))

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def post(self, path: bytes, body: bytes, *headers: bytes) -> None:
        lines = [b"POST %b HTTP/1.1" % path, b"host: test", b"content-length: %d" % len(body), *headers]
        await self.send(b"\r\n".join(lines) + b"\r\n\r\n" + body)

    async def get(self, path: bytes, *headers: bytes) -> None:
        await self.send(b"\r\n".join([b"GET %b HTTP/1.1" % path, b"host: test", *headers]) + b"\r\n\r\n")

    async def head(self) -> tuple[int, dict[bytes, bytes]]:
        """Read a response head."""
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        pairs = (line.partition(b":") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}

    async def some(self, most: int = 1 << 16) -> bytes:
        return await self._reader.read(most)

    async def body(self, headers: dict[bytes, bytes]) -> bytes:
        """Read a body as HTTP frames it. Raises `BrokenEndError` where it stops before its end."""
        parts: list[bytes] = []
        try:
            if b"content-length" in headers:
                return await self._reader.readexactly(int(headers[b"content-length"]))
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                parts.append(await self._reader.readexactly(size))
                await self._reader.readexactly(2)
            await self._reader.readexactly(2)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise BrokenEndError(b"".join(parts)) from None
        return b"".join(parts)

    async def response(self) -> tuple[int, dict[bytes, bytes], bytes]:
        status, headers = await self.head()
        return status, headers, await self.body(headers)

    async def rest(self) -> bytes:
        """What comes until the other side closes. Raises ConnectionResetError where it resets instead."""
        return await self._reader.read(-1)

    async def closed(self) -> bool:
        """Whether the other side closes without another byte."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True

    def leave(self) -> None:
        """Reset the connection, as a killed client's kernel does."""
        self._writer.transport.abort()


class BrokenEndError(Exception):
    """A body stopped before its end; `received` is what came."""

    def __init__(self, received: bytes) -> None:
        super().__init__(f"after {len(received)} bytes")
        self.received = received


POST = Request(b"POST", b"/x", [(b"content-type", b"application/json")], b'{"a":1}')


class Heard:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.pieces: list[bytes] = []
        self.ended = False
        self.error: UpstreamError | None = None
        self.over = asyncio.Event()
        self.calls_after_over = 0
        self.on_each: Callable[[], None] = lambda: None

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def on_head(self, head: ResponseHead) -> None:
        self.calls_after_over += self.over.is_set()
        assert self.head is None
        self.head = head

    def on_data(self, data: bytes) -> None:
        self.calls_after_over += self.over.is_set()
        assert data
        self.pieces.append(data)
        self.on_each()

    def on_end(self) -> None:
        self.calls_after_over += self.over.is_set()
        self.ended = True
        self.over.set()

    def on_error(self, error: UpstreamError) -> None:
        self.calls_after_over += self.over.is_set()
        self.error = error
        self.over.set()


async def ask(upstream: Upstream, request: Request = POST) -> Heard:
    heard = Heard()
    upstream.start(request, heard)
    await asyncio.wait_for(heard.over.wait(), 50)
    await asyncio.sleep(0)
    assert heard.calls_after_over == 0
    return heard
