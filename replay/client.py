"""The load client: one `asyncio.Protocol` a connection, and no task, future or queue a request.

`start` sends at once where a connection is free and says what came of it by calling back, from inside the
read that ended the response. A connection carries one request at a time and is kept while its server wants
it; a request that went into a connection just being closed, with no byte of an answer, goes out once more.

Cost: 0.1 ms a request, and per streamed chunk little above what the kernel and the loop take for a read.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Final, Protocol, cast

from replay.answer import Answer
from replay.dialects import answer_for
from replay.framing import BadResponse, Response
from replay.results import Ending
from replay.target import Target, tls_for

CONNECT_S: Final = 10.0
IDLE_S: Final = 3.0
"""Below the 5 s after which uvicorn, in front of most engines, closes an idle connection."""
OK: Final = 200
BAD: Final = 400


class Call(Protocol):
    """One request and what came of it, whatever carries it."""

    answer: Answer
    ending: Ending | None  # None while under way
    error: str | None
    sent_at: float | None  # monotonic, s, as are the others
    ended_at: float

    @property
    def first_at(self) -> float | None:
        """When the first byte came."""
        ...

    @property
    def status(self) -> int | None: ...

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """Names in lower case."""
        ...

    def stop(self, ending: Ending, error: str | None = None) -> None:
        """End it now; the connection is closed, as a client that leaves does."""
        ...


Done = Callable[[Call], None]


class Transport(Protocol):
    """Something that carries calls to one target."""

    def start(self, path: str, body: bytes, done: Done) -> Call:
        """Send; `done` is called once, when it has ended, perhaps before this returns."""
        ...

    async def close(self) -> None: ...


class RawCall:
    """One request over the raw transport."""

    __slots__ = (
        "_client",
        "_done",
        "_resent",
        "_wire",
        "answer",
        "connecting",
        "connection",
        "ended_at",
        "ending",
        "error",
        "response",
        "sent_at",
    )

    def __init__(self, client: "RawClient", wire: bytes, answer: Answer, done: Done) -> None:
        self._client = client
        self._wire = wire
        self._done = done
        self._resent = False
        self.answer = answer
        self.response = Response(answer)
        self.connection: Connection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.sent_at: float | None = None
        self.ended_at = 0.0
        self.ending: Ending | None = None
        self.error: str | None = None

    def __repr__(self) -> str:
        return f"<RawCall {self.ending or 'under way'} {self.response}>"

    @property
    def status(self) -> int | None:
        return self.response.status

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        return self.response.headers

    @property
    def first_at(self) -> float | None:
        return self.response.first_at

    def stop(self, ending: Ending, error: str | None = None) -> None:
        if self.ending is not None:
            return
        connection = self._leave()
        if self.connecting is not None:
            self.connecting.cancel()
        if connection is not None:
            connection.abort()
        self._read_rest()
        self._end(ending, error)

    # --- what the connection tells ---

    def attach(self, connection: "Connection") -> None:
        """A connection is there: send."""
        self.connecting = None
        self.connection = connection
        connection.call, connection.response = self, self.response
        self.sent_at = self.sent_at or monotonic()
        connection.write(self._wire)

    def over(self) -> None:
        """The response is complete."""
        connection = self._leave()
        if connection is not None:
            if self.response.keep:
                self._client.put(connection)
            else:
                connection.abort()
        status, error = self.status or 0, self.answer.error
        if status >= BAD:
            self._end("error", f"http {status}" + (f": {error}" if error else ""))
        else:
            self._end("error" if error else "complete", error)

    def bad(self, told: str) -> None:
        """The response cannot be understood."""
        self.stop("error", f"bad response: {told}")

    def lost(self, connection: "Connection") -> None:
        """The connection is gone before its end."""
        self._leave()
        heard = self.first_at is not None
        if not heard and connection.used and not self._resent:
            self._resent = True
            self._client.stale += 1
            self._client.connect(self)
            return
        self._read_rest()
        self._end("reset" if heard else "refused", "the connection was closed")

    def refused(self, error: str) -> None:
        """No connection came about."""
        self.connecting = None
        self._end("refused", error)

    def _read_rest(self) -> None:
        """Understand what has come of a response that ends early."""
        with suppress(BadResponse):
            self.response.give_up()

    def _leave(self) -> "Connection | None":
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.call = connection.response = None
        return connection

    def _end(self, ending: Ending, error: str | None) -> None:
        self.ending, self.error, self.ended_at = ending, error, monotonic()
        self._done(self)


class Connection(asyncio.Protocol):
    """A socket to the target."""

    __slots__ = ("_client", "_transport", "call", "idle_since", "response", "used")

    _transport: asyncio.Transport

    def __init__(self, client: "RawClient") -> None:
        self._client = client
        self.call: RawCall | None = None
        self.response: Response | None = None
        self.used = False  # it carried a response before, so its server may be closing it
        self.idle_since = 0.0

    def __repr__(self) -> str:
        return f"<Connection {'busy' if self.call else 'idle'}>"

    @property
    def closing(self) -> bool:
        return self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # create_connection makes stream transports

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        response, call = self.response, self.call
        if response is None or call is None:  # nobody asked for these bytes: never trust it again
            self._transport.abort()
            return
        try:
            if response.feed(data, monotonic()):
                call.over()
        except BadResponse as bad:
            call.bad(str(bad))

    def eof_received(self) -> bool:
        response, call = self.response, self.call
        if response is not None and call is not None:
            try:
                if response.eof(monotonic()):
                    call.over()
            except BadResponse as bad:
                call.bad(str(bad))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.forget(self)
        call = self.call
        if call is not None:
            call.lost(self)


class RawClient:
    """All connections to one target: last in, first out, so that those that idle are the ones that age."""

    def __init__(
        self,
        target: Target,
        *,
        headers: Mapping[str, str] | None = None,
        authorities: str | None = None,
        connect_s: float = CONNECT_S,
    ) -> None:
        self._target = target
        self._tls = tls_for(target, authorities)
        self._connect_s = connect_s
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._heads: dict[str, bytes] = {}
        self._idle: list[Connection] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self.stale = 0  # sent once more, because the server was just closing the connection

    def __repr__(self) -> str:
        return f"<RawClient {self._target.url} {len(self._idle)} idle, {len(self._connecting)} connecting>"

    def start(self, path: str, body: bytes, done: Done) -> RawCall:
        """Send; `done` is called once, when it has ended."""
        head = self._heads.get(path) or self._head(path)
        wire = b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)
        return self._begin(RawCall(self, wire, answer_for(path), done))

    def get(self, path: str, answer: Answer, done: Done) -> RawCall:
        """Ask for a page on the same terms; `answer` is given the body."""
        target = self._target
        wire = f"GET {target.prefix}{path} HTTP/1.1\r\nhost: {target.authority}\r\n{self._headers}\r\n"
        return self._begin(RawCall(self, wire.encode(), answer, done))

    def _begin(self, call: RawCall) -> RawCall:
        connection = self._take()
        if connection is None:
            self.connect(call)
        else:
            call.attach(connection)
        return call

    def _head(self, path: str) -> bytes:
        lines = (
            f"POST {self._target.prefix}{path} HTTP/1.1\r\nhost: {self._target.authority}\r\n"
            f"content-type: application/json\r\naccept-encoding: identity\r\n{self._headers}"
        )
        head = self._heads[path] = lines.encode()
        return head

    def connect(self, call: RawCall) -> None:
        """Open a connection for this call."""
        loop = asyncio.get_running_loop()
        task = call.connecting = loop.create_task(self._connect(call), name="replay-connect")
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, call: RawCall) -> None:
        loop, target = asyncio.get_running_loop(), self._target
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self), target.host, target.port, ssl=self._tls
                )
        except TimeoutError:
            call.refused("no connection within the time allowed")
        except OSError as error:
            call.refused(f"no connection: {type(error).__name__}")
        else:
            if call.ending is None:
                call.attach(connection)
            else:
                connection.abort()

    def put(self, connection: Connection) -> None:
        """Take a connection back."""
        if connection.closing:
            return
        connection.used = True
        connection.idle_since = monotonic()
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    async def close(self) -> None:
        """Close what is idle; calls under way have been stopped before."""
        for task in list(self._connecting):
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _take(self) -> Connection | None:
        oldest = monotonic() - IDLE_S
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.pop(0).abort()
        while self._idle:
            connection = self._idle.pop()
            if not connection.closing:
                return connection
        return None
