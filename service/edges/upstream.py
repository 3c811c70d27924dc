"""The one seam to the router: a request goes out, its response comes back as calls on a sink.

    upstream.start(request, sink) -> Exchange        sink.on_head, on_data*, then on_end or on_error, once
    exchange.pause / resume / abort / drain

Callbacks instead of an iterator, because a task that must be woken for each read costs 2-7 us a chunk;
the sink runs inside the read itself. What every client behind this seam promises, held by one suite:

- `start` returns before the first call on the sink; after `abort` or `drain` there is none any more;
- `on_data` gets body bytes without their framing, never an empty piece; `on_end` comes only for a body
  that ended as HTTP says it should, `on_error` for everything else;
- a request that met a pooled connection the router was just closing is sent once more, on a new one,
  and only when not one response byte had arrived;
- a paused exchange takes a bounded amount more; a connection never enters the pool paused.
"""

from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from service.core.events import Ending, Guilty
from service.edges.headers import Headers

HEAD_BYTES_MAX: Final = 64 * 1024
"""A response head, trailers included: twice what we take from a client, for routers that add their own."""
BODY_BYTES_MAX: Final = 1024 * 1024 * 1024
"""A runaway response. The cumulative dialect repeats its text in each chunk: 10,000 tokens are 200 MB."""


class Request(msgspec.Struct, frozen=True):
    """What is sent; the client behind the seam adds `host` and `content-length`."""

    method: bytes
    target: bytes  # path and query
    headers: Headers
    body: bytes = b""

    def __repr__(self) -> str:
        return f"<Request {self.method.decode()} {len(self.body)} bytes>"


class ResponseHead(msgspec.Struct, frozen=True):
    """Final status (never 1xx) and headers, names in lower case."""

    status: int
    headers: Headers


class UpstreamError(Exception):
    """The router's side failed; `reason` is fit for a metric label and a client's eyes."""

    def __init__(self, ending: Ending, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.ending = ending
        self.reason = reason
        self.guilty = Guilty.ROUTER


class Sink(Protocol):
    """Who takes the response. Must not raise."""

    def on_head(self, head: ResponseHead) -> None: ...

    def on_data(self, data: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_error(self, error: UpstreamError) -> None: ...


class _Nobody:
    """The sink of an exchange that nobody listens to any more."""

    def on_head(self, head: ResponseHead) -> None: ...

    def on_data(self, data: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_error(self, error: UpstreamError) -> None: ...


NOBODY: Final[Sink] = _Nobody()


class Exchange(Protocol):
    """One request on its way."""

    def pause(self) -> None:
        """Stop reading: the client is slow."""
        ...

    def resume(self) -> None: ...

    def abort(self) -> None:
        """Close the connection, which aborts the generation; the sink hears nothing more."""
        ...

    def drain(self, within_s: float) -> None:
        """Let the response run out unread, for this long at most; the sink hears nothing more."""
        ...


class Upstream(Protocol):
    """A client of one router."""

    @property
    def counts(self) -> "Counts": ...

    def start(self, request: Request, sink: Sink) -> Exchange: ...

    def sweep(self) -> None:
        """Close pooled connections that idled too long; from the ticker."""
        ...

    async def close(self) -> None: ...


class Limits(msgspec.Struct, frozen=True):
    """What one exchange may take."""

    connect_s: float = 2.0
    idle_s: float = 4.0  # pooled; SGLang's own server closes after 5 s
    head_bytes: int = HEAD_BYTES_MAX
    body_bytes: int = BODY_BYTES_MAX


class Counts(msgspec.Struct):
    """Plain ints; the ticker carries them to the metrics."""

    connects: int = 0
    reuses: int = 0
    stale_retries: int = 0
    drains: int = 0


class Origin(msgspec.Struct, frozen=True):
    """Where the router listens."""

    scheme: str
    host: str
    port: int
    prefix: bytes = b""  # a base path in front of every target

    @property
    def authority(self) -> bytes:
        name = f"[{self.host}]" if ":" in self.host else self.host
        standard = {"http": 80, "https": 443}[self.scheme]
        return name.encode() if self.port == standard else f"{name}:{self.port}".encode()


def origin_of(url: str) -> Origin:
    """Read a router's base URL; the settings have checked it."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return Origin(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/").encode())
