"""Live streams: a snapshot a second for who watches, and nothing at all while nobody does.

The data loop publishes, the admin loop reads; between them stands one reference, replaced as a whole. Who
comes first finds none: what the last watcher saw is long over.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from math import inf
from typing import Final

import msgspec

STREAMS_MAX: Final = 256
"""Streams in one snapshot; building one costs about a microsecond a stream on the data loop."""
EVERY_S: Final = 1.0
JITTER_S: Final = 0.1
"""A tick that comes a little early must not cost the snapshot a whole tick more."""
WATCHERS_MAX: Final = 16


class LiveStream(msgspec.Struct, frozen=True, omit_defaults=False):
    """One guarded request in flight. No text."""

    rid: str
    route: str
    policy: str
    worker: str
    attempt: int
    tokens: int | None
    accept_length: float | None
    level: str
    kind: str
    held_bytes: int
    age_s: float


class Snapshot(msgspec.Struct, frozen=True):
    at: str  # ISO 8601, UTC
    open_streams: int
    streams: tuple[LiveStream, ...]


def utc_now() -> datetime:
    return datetime.now(UTC)


class LiveBoard:
    """The one reference between the two loops."""

    def __init__(self, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock
        self.latest: Snapshot | None = None
        self._published_at = -inf  # s, monotonic
        self._watchers = 0

    def __repr__(self) -> str:
        return f"<LiveBoard {self._watchers} watching>"

    @property
    def full(self) -> bool:
        return self._watchers >= WATCHERS_MAX

    def enter(self) -> None:
        if not self._watchers:
            self.latest = None
        self._watchers += 1

    def leave(self) -> None:
        self._watchers -= 1

    def publish(self, now: float, open_streams: int, seen: Iterable[Callable[[float], LiveStream]]) -> None:
        """On the data loop, from the ticker: at most once a second, and only while somebody watches."""
        if self._watchers and now - self._published_at > EVERY_S - JITTER_S:
            self._published_at = now
            streams = tuple(look(now) for look in islice(seen, STREAMS_MAX))
            self.latest = Snapshot(self._clock().isoformat(timespec="milliseconds"), open_streams, streams)
