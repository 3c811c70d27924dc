"""The dialect contract: how one API speaks, as far as the stream path must understand it.

A dialect reads requests, reads response events, cuts out what we asked for and the client did not, and
speaks errors and heartbeats that its SDKs understand. It never re-serialises what the engine sent: what is
released is the engine's own bytes, less whole spans.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from service.core.events import Cached, Delta, RequestFacts


class Outgoing(msgspec.Struct, frozen=True):
    """What goes to the router in place of the client's body."""

    body: bytes
    asked_growth: bool = False  # we asked for usage in every chunk, the client did not
    asked_usage: bool = False  # we asked for the final usage event, the client did not
    asked_spec: bool = False  # we asked for the sglext event, the client did not


class Reader(Protocol):
    """Reads one attempt's events; keeps what cumulative dialects need between calls."""

    @property
    def cached(self) -> Cached:
        """What the engine said of its prefix cache, once it has."""
        ...

    def read(self, payloads: Sequence[bytes]) -> list[Delta]:
        """The data payloads of some events, in order. Never raises: what it cannot read is `malformed`."""
        ...

    def brief(self, payloads: Sequence[bytes]) -> list[Delta]:
        """As `read`; events in a row that brought text and tokens alone may come as one delta: a `run`."""
        ...

    def whole(self, body: bytes) -> list[Delta]:
        """A non-streamed response body as one delta a choice. Never raises."""
        ...


class Dialect(Protocol):
    """One API."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> bytes:
        """The request path it answers to."""
        ...

    def request(self, body: bytes) -> RequestFacts:
        """Read a client's request. Raises `BadRequest` (guilty: client) on what no engine would take."""
        ...

    def outgoing(self, body: bytes, facts: RequestFacts, rid: str, *, ask_growth: bool) -> Outgoing:
        """The body for the router: with this rid, and with token growth asked for where nobody else tells."""
        ...

    def reader(self, facts: RequestFacts) -> Reader: ...

    def cut(self, event: bytes, outgoing: Outgoing) -> bytes:
        """One raw event (its framing included) less what only we asked for; b"" drops it whole."""
        ...

    def beat(self) -> bytes:
        """A heartbeat that event-based watchdogs of this dialect's clients count, or at least survive."""
        ...

    def refusal(self, status: int, reason: str, message: str) -> bytes:
        """The body of a real HTTP error, in this dialect's shape."""
        ...

    def in_band(self, reason: str, message: str) -> bytes:
        """The error event that ends a stream loudly, of a type its SDKs retry; no clean end after it."""
        ...


class BadRequest(ValueError):  # noqa: N818 - named as HTTP names it
    """The client's request cannot be read; the message says what to mend and quotes none of it."""
