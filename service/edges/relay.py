"""One client's request and its response, passed on as it comes.

    client --request--> Relay --Request--> upstream
    client <--Outlet--- Relay <--Sink----- exchange

Whatever happens is a call: the router's (`on_head`, `on_data`, `on_end`, `on_error`), the client's (`gone`,
`on_blocked`, `on_free`), the ticker's (`tick`), the operator's (`stop`). The request's own task only waits
for the end, because uvicorn closes a connection whose app returns without completing its response: that is
how a client is shown a broken end, and nothing else ever looks like a clean one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Protocol

import structlog

from service.core.desk import Desk
from service.core.dialects.protocol import Dialect
from service.core.endings import LOST
from service.core.events import UNKNOWN, Ending, Incident
from service.edges.case import Kept
from service.edges.headers import Headers, towards_client
from service.edges.origins import Origins
from service.edges.outlet import Outlet, Receive, Send, Sending
from service.edges.refusals import RETRY_AFTER_S, refusal_body, refusal_headers
from service.edges.scene import Engine
from service.edges.tasks import Tasks
from service.edges.upstream import Exchange, Request, ResponseHead, Upstream, UpstreamError

UNAVAILABLE: Final = 503
LOOKS_A_TURN: Final = 1
"""A look lasts a third of a millisecond; then bytes that have come are read."""
TICK_S: Final = 0.25
"""How often each request hears that time has passed; each at a beat of its own, or all would look at once."""
SLOW_CLIENT_S: Final = 300.0
"""A client that reads nothing for so long is gone in all but name; its worker's slot is worth more."""

_log = structlog.get_logger(__name__)


class Pins(Protocol):
    """Which worker a request may be sent to."""

    def choose(self, model: str, avoid: frozenset[str]) -> int | None: ...

    def answered(self, model: str, pin: int | None, worker: str) -> None: ...


class Looks:
    """Looks that are due, taken together once the loop has done its reads.

    Every byte that may go goes first; then one look after the other finds the detectors' code in the cache,
    and after a few of them the next reads have their turn.
    """

    __slots__ = ("_line",)

    def __init__(self) -> None:
        self._line: deque[Callable[[float], None]] = deque()

    def __repr__(self) -> str:
        return f"<Looks {len(self._line)} due>"

    def add(self, look: Callable[[float], None]) -> None:
        if not self._line:
            asyncio.get_running_loop().call_soon(self._take)
        self._line.append(look)

    def _take(self) -> None:
        line, now = self._line, monotonic()
        for _ in range(min(len(line), LOOKS_A_TURN)):
            line.popleft()(now)
        if line:
            asyncio.get_running_loop().call_soon(self._take)


@dataclass(slots=True)
class Means:
    """What all requests of one process share."""

    upstream: Upstream
    desk: Desk
    tasks: Tasks
    pins: Pins
    keep: Callable[[Incident, Kept], None]
    sending: Sending = Sending.STEPPED  # the best that server.py found to work
    ask_growth: bool = True  # no probe tells us the verify steps
    first_byte_s: float = 600.0
    drain_s: float = 30.0
    origins: Origins | None = None  # whose words are whose; None where nobody asks
    pull: Callable[[], None] | None = None  # reads what probes have sent; None where nothing listens for them
    engines: Mapping[str, Engine] = field(default_factory=dict)  # what workers say of themselves
    policy: Callable[[], str] = str  # by which the router chooses workers; "" for unknown
    live: "set[Relay]" = field(default_factory=set)
    looks: Looks = field(default_factory=Looks)


class Relay:
    """A request that nobody looks into."""

    __slots__ = (
        "_blocked_at",
        "_exchange",
        "_head_sent",
        "_means",
        "_opened_at",
        "_outlet",
        "over",
        "request",
        "tick_at",
    )

    def __init__(self, means: Means, send: Send, request: Request) -> None:
        self._means = means
        self._outlet = Outlet(send, self, means.tasks, means.sending)
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exchange: Exchange | None = None
        self._head_sent = False
        self._blocked_at: float | None = None
        self._opened_at = 0.0  # s; 0 once a response head has come
        self.tick_at = monotonic() + TICK_S
        self.request = request

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._exchange!r} {self._outlet!r}>"

    @property
    def dialect(self) -> Dialect | None:
        """Who shapes the errors; None for a path without a dialect."""
        return None

    async def run(self, receive: Receive) -> None:
        """From the first byte to the last, or to the client's leaving."""
        means = self._means
        means.live.add(self)
        watch = None
        try:
            self.begin(monotonic())
            watch = means.tasks.spawn(self._watch(receive), "client-watch")
            await self.over
            await self._outlet.flushed()
        except asyncio.CancelledError:
            self.stop(monotonic())
            raise
        finally:
            if watch is not None:
                watch.cancel()
            means.live.discard(self)
            self._outlet.let_go()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone(monotonic())

    # --- steps that a guarded request takes otherwise ---

    def begin(self, now: float) -> None:
        self.open(self.request, now)

    def gone(self, now: float) -> None:
        """The client left."""
        if not self.over.done():
            self.leave(drain=False, reason="client_gone")
            self.finish()

    def stop(self, now: float) -> None:
        """The process stops and this response has run out of time."""
        if not self.over.done():
            self.leave(drain=False, reason="shutdown")
            self.fail(UNAVAILABLE, "shutting_down", "the proxy is shutting down", RETRY_AFTER_S)

    def tick(self, now: float) -> None:
        if self._opened_at and now - self._opened_at > self._means.first_byte_s:
            self.leave(drain=False, reason="timeout")
            self.on_error(UpstreamError(Ending.TIMEOUT, "first_byte_timeout"))
        elif self._blocked_at is not None and now - self._blocked_at > SLOW_CLIENT_S:
            self.gone(now)

    # --- the upstream's calls ---

    def on_head(self, head: ResponseHead) -> None:
        self._opened_at = 0.0
        self.send_head(head.status, towards_client(head.headers, keep_length=True))

    def on_data(self, data: bytes) -> None:
        self._outlet.body(data)

    def on_end(self) -> None:
        self._exchange = None
        self._outlet.end()
        self.finish()

    def on_error(self, error: UpstreamError) -> None:
        self._exchange, self._opened_at = None, 0.0
        status, _, reason, message = LOST[error.ending]
        self.fail(status, reason, message, RETRY_AFTER_S if status == UNAVAILABLE else UNKNOWN)

    # --- the outlet's calls ---

    def on_blocked(self) -> None:
        self._blocked_at = monotonic()
        if self._exchange is not None:
            self._exchange.pause()

    def on_free(self) -> None:
        self._blocked_at = None
        if self._exchange is not None:
            self._exchange.resume()

    def on_fault(self) -> None:
        _log.error(
            "response_refused_by_server", path=self.request.target.partition(b"?")[0].decode("latin-1")
        )
        self.gone(monotonic())

    # --- means ---

    def open(self, request: Request, now: float) -> None:
        self._opened_at = now
        self._exchange = self._means.upstream.start(request, self)
        if self._blocked_at is not None:
            self._exchange.pause()

    def leave(self, *, drain: bool, reason: str) -> None:
        """Part from the exchange that is still running, if one is."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        self._means.desk.count("aborts", "drained" if drain else reason)
        if drain:
            exchange.drain(self._means.drain_s)
        else:
            exchange.abort()

    def send_head(self, status: int, headers: Headers) -> None:
        self._head_sent = True
        self._outlet.head(status, headers)

    def crash(self, error: Exception) -> None:
        """A defect of ours met this request: end it loudly, name the defect, touch no other."""
        _log.error("request_crashed", error=type(error).__name__, exc_info=error)
        if not self.over.done():
            self.leave(drain=False, reason="defect")
            self.fail(500, "internal_error", "the proxy failed on this request", UNKNOWN)

    def fail(self, status: int, reason: str, message: str, retry_after_s: int) -> None:
        """A real error where nothing has gone out; a broken end where something has."""
        if not self._head_sent:
            path = self.request.target.partition(b"?")[0]
            body = refusal_body(path, self.dialect, status, reason, message)
            self.send_head(status, refusal_headers(body, retry_after_s))
            self._outlet.end(body)
        self.finish()

    def finish(self) -> None:
        """Nothing more goes out."""
        if not self.over.done():
            self.over.set_result(None)
