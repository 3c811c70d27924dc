"""Our own HTTP/1.1 client: one `asyncio.Protocol` a connection, and the sink called inside the read.

A strict parser (llhttp, through httptools) does the grammar; here stand the rules around it. One request
is in flight a connection. A connection goes back to the pool only when its response is complete, the peer
wants to keep it, nothing followed the response, and the method was not HEAD (the parser cannot know that
no body comes). A response without length and chunking ends with the connection; httptools cannot be told
of an end of file, so that is decided here. Cost: about 4 us a chunk less than a general client, nearly all
of it task wakes and queues.
"""

import asyncio
import ssl
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from service.core.events import Ending
from service.edges.headers import Headers, value_of
from service.edges.tasks import Tasks
from service.edges.upstream import (
    NOBODY,
    Counts,
    Limits,
    Request,
    ResponseHead,
    Sink,
    UpstreamError,
    origin_of,
)

POOL_MAX: Final = 1024
"""Idle connections kept; more are closed as they come back."""
FINAL: Final = 200
"""Statuses below it are interim: the final head is still to come."""
BODILESS: Final = frozenset({204, 304})
SPENT: Final = HttpResponseParser(object())
"""Stands in for the parser of an exchange that is over: the two would keep each other until the collector."""


class Connection(asyncio.Protocol):
    """A socket to the router; its exchange does the thinking."""

    __slots__ = ("_paused", "_pool", "_transport", "exchange", "idle_since", "used")

    _transport: asyncio.Transport

    def __init__(self, pool: "RawUpstream") -> None:
        self._pool = pool
        self._paused = False
        self.exchange: RawExchange | None = None
        self.used = False  # it carried a response before, so the peer may be closing it
        self.idle_since = 0.0

    def __repr__(self) -> str:
        return f"<Connection {'busy' if self.exchange else 'idle'}{' paused' if self._paused else ''}>"

    @property
    def closing(self) -> bool:
        return self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # create_connection makes stream transports

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def pause(self) -> None:
        if not self._paused and not self.closing:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            if not self.closing:
                self._transport.resume_reading()

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:  # nobody asked for these bytes: never trust this connection again
            self._transport.abort()
        else:
            exchange.feed(data)

    def eof_received(self) -> bool:
        if self.exchange is not None:
            self.exchange.eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.forget(self)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.lost()


class RawExchange:
    """One request and its response; the parser's callbacks are methods here."""

    __slots__ = (
        "_body",
        "_complete",
        "_connection",
        "_fault",
        "_framed",
        "_head",
        "_head_bytes",
        "_headed",
        "_headers",
        "_heard",
        "_is_head",
        "_keep",
        "_parser",
        "_paused",
        "_pool",
        "_resent",
        "_sink",
        "_size",
        "_timer",
        "_wire",
        "connecting",
    )

    def __init__(self, pool: "RawUpstream", request: Request, sink: Sink) -> None:
        self._pool = pool
        self._sink = sink
        self._wire = pool.encode(request)
        self._is_head = request.method == b"HEAD"
        self._parser = HttpResponseParser(self)
        self._connection: Connection | None = None
        self._headers: Headers = []
        self._head: ResponseHead | None = None
        self._body: list[bytes] = []
        self._head_bytes = self._size = 0
        self._fault = ""
        self._heard = self._headed = self._framed = self._complete = self._keep = False
        self._paused = self._resent = False
        self._timer: asyncio.TimerHandle | None = None
        self.connecting: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        stage = "body" if self._headed else "head" if self._connection else "connecting"
        return f"<RawExchange {stage} {self._size} bytes{' paused' if self._paused else ''}>"

    # --- what the proxy asks ---

    def pause(self) -> None:
        self._paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        self._paused = False
        if self._connection is not None:
            self._connection.resume()

    def abort(self) -> None:
        connection = self._leave()
        if self.connecting is not None:
            self.connecting.cancel()
        if connection is not None:
            connection.abort()

    def drain(self, within_s: float) -> None:
        self._sink = NOBODY
        self._pool.counts.drains += 1
        self._timer = asyncio.get_running_loop().call_later(within_s, self.abort)
        self.resume()

    # --- what the connection tells ---

    def attach(self, connection: Connection) -> None:
        """A connection is there: send."""
        self.connecting = None
        self._connection = connection
        connection.exchange = self
        if self._paused:
            connection.pause()
        connection.send(self._wire)

    def feed(self, data: bytes) -> None:
        self._heard = True
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._fault = self._fault or "bad_response"
        if self._head is not None:
            head, self._head = self._head, None
            self._sink.on_head(head)
        body = self._body
        if body:
            piece = body[0] if len(body) == 1 else b"".join(body)
            body.clear()
            self._size += len(piece)
            if self._size > self._pool.limits.body_bytes:
                self._fault, self._complete = "response_too_large", False
            self._sink.on_data(piece)
        if self._complete or self._fault:
            self._settle()

    def eof(self) -> None:
        """The peer closes: the end of a body that has neither length nor chunks."""
        if self._headed and not self._framed:
            self._complete = True
            self._settle()

    def lost(self) -> None:
        connection = self._leave(forget=False)
        stale = connection is not None and connection.used and not self._heard
        if stale and not self._resent:
            self._resent = True
            self._pool.counts.stale_retries += 1
            self._pool.connect(self)
        elif self._heard:
            self._tell(UpstreamError(Ending.BROKEN, "upstream_closed"))
        else:
            self._tell(UpstreamError(Ending.REFUSED, "upstream_closed"))

    def refused(self, error: UpstreamError) -> None:
        """No connection came about."""
        self.connecting = None
        self._tell(error)

    # --- the parser's calls ---

    def on_message_begin(self) -> None:
        if self._complete:
            self._keep = False
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > self._pool.limits.head_bytes:
            self._fault = "response_head_too_large"
            raise ValueError(self._fault)
        if not self._headed:  # what comes later are trailers, which end here
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < FINAL:
            self._headers = []
            return
        self._frame(status)
        self._head = ResponseHead(status, self._headers)
        self._headed = True
        self._complete = self._is_head

    def on_body(self, body: bytes) -> None:
        if not self._complete:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._headed and not self._complete:
            self._complete = True
            self._keep = self._parser.should_keep_alive()  # the parser forgets it with the message

    # --- inside ---

    def _frame(self, status: int) -> None:
        """Refuse what we would misread, and note whether the body says where it ends."""
        if self._parser.get_http_version() not in {"1.0", "1.1"}:
            raise ValueError("not HTTP/1")
        codings = [value for name, value in self._headers if name == b"transfer-encoding"]
        if any(coding.strip().lower() != b"chunked" for coding in codings):
            raise ValueError("a transfer coding we do not speak")
        length = value_of(self._headers, b"content-length")
        self._framed = bool(codings) or length is not None or status in BODILESS

    def _leave(self, *, forget: bool = True) -> Connection | None:
        """Part from the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.exchange = None
        if forget:
            self._sink, self._parser = NOBODY, SPENT
        if self._timer is not None:
            self._timer.cancel()
        return connection

    def _settle(self) -> None:
        """The response is over, well or not. The connection goes first: the sink may ask for another."""
        connection = self._leave(forget=False)
        if connection is None:
            return
        if self._complete and self._keep and not self._fault:
            self._pool.put(connection)
        else:
            connection.abort()
        if self._complete:
            self._tell(None)
        else:
            self._tell(UpstreamError(Ending.BROKEN, self._fault))

    def _tell(self, error: UpstreamError | None) -> None:
        sink, self._sink, self._parser = self._sink, NOBODY, SPENT
        if error is None:
            sink.on_end()
        else:
            sink.on_error(error)


class RawUpstream:
    """The pool: last in, first out, so that the connections that idle are the ones that age."""

    __slots__ = ("_idle", "_origin", "_ssl", "_tasks", "counts", "limits")

    def __init__(self, url: str, limits: Limits) -> None:
        self._origin = origin_of(url)
        self._ssl = ssl.create_default_context() if self._origin.scheme == "https" else None
        self._idle: list[Connection] = []
        self._tasks = Tasks()
        self.limits = limits
        self.counts = Counts()

    def __repr__(self) -> str:
        return f"<RawUpstream {len(self._idle)} idle, {len(self._tasks)} connecting>"

    def start(self, request: Request, sink: Sink) -> RawExchange:
        exchange = RawExchange(self, request, sink)
        connection = self._take()
        if connection is None:
            self.connect(exchange)
        else:
            self.counts.reuses += 1
            exchange.attach(connection)
        return exchange

    def encode(self, request: Request) -> bytes:
        """The request as it goes over the wire."""
        target = self._origin.prefix + request.target
        lines = [b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (request.method, target, self._origin.authority)]
        lines += [b"%b: %b\r\n" % header for header in request.headers]
        if request.body or request.method not in {b"GET", b"HEAD"}:
            lines.append(b"content-length: %d\r\n" % len(request.body))
        return b"".join([*lines, b"\r\n", request.body])

    def connect(self, exchange: RawExchange) -> None:
        self.counts.connects += 1
        exchange.connecting = self._tasks.spawn(self._connect(exchange), "upstream-connect")

    async def _connect(self, exchange: RawExchange) -> None:
        loop, origin = asyncio.get_running_loop(), self._origin
        try:
            async with asyncio.timeout(self.limits.connect_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self), origin.host, origin.port, ssl=self._ssl
                )
        except TimeoutError:
            exchange.refused(UpstreamError(Ending.TIMEOUT, "connect_timeout"))
        except OSError:
            exchange.refused(UpstreamError(Ending.REFUSED, "connect_failed"))
        else:
            exchange.attach(connection)

    def put(self, connection: Connection) -> None:
        """Take a connection back; never a paused one, or its next response would not be read."""
        if len(self._idle) >= POOL_MAX or connection.closing:
            connection.abort()
            return
        connection.resume()
        connection.used = True
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def sweep(self) -> None:
        oldest = asyncio.get_running_loop().time() - self.limits.idle_s
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.pop(0).abort()

    async def close(self) -> None:
        await self._tasks.cancel()
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _take(self) -> Connection | None:
        self.sweep()
        while self._idle:
            connection = self._idle.pop()
            if not connection.closing:
                return connection
        return None
