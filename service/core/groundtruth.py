"""What engines themselves say of corruption: the words of their own checks, kept for whoever judges.

    checksum_mismatch         the KV that decode received is not what prefill sent    names the request
    context_corruption        another request's metadata came instead                 names the request
    canary_violation          a slot of the KV pool holds what nobody wrote there     names the worker
    nan                       logits were no numbers                                  either of the two
    deferred_release_timeout  slots were given away before their writer was heard of  names the room

They come from log lines, from counters of `/metrics`, and (`nan`) from the finish reason of a stream. A word
that names a request is about that request; one that names a worker is about everybody whose state lies there,
and says of no stream that it is bad. Nothing heard is no evidence, and never evidence of health: an engine
without these checks says nothing either.

Bounds: the newest `WORDS_MAX` words; counts for `PLACES_MAX` pairs of kind and worker. Time is given.
"""

from collections import Counter, deque
from collections.abc import Collection
from typing import Final

import msgspec

from service.core.events import UNKNOWN
from service.core.loglines import CORRUPTION, LogEvent, LogKind

WORDS_MAX: Final = 1024
PLACES_MAX: Final = 1024
NEAR_S: Final = 60.0
"""How long a worker's word is about the streams that follow: slots given away wait for their next owner."""


class Word(msgspec.Struct, frozen=True):
    """One thing that an engine said of itself."""

    kind: LogKind
    at: float  # s, monotonic: when we heard it
    worker: str = ""  # "" for unknown
    rid: str = ""
    room: int = UNKNOWN
    reason: str = ""
    times: int = 1  # a counter may have moved by several


class GroundTruth:
    """All words heard lately."""

    __slots__ = ("_words", "counts", "new")

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()  # (kind, worker), since the start
        self.new: Counter[tuple[str, str]] = Counter()  # not yet drained into the metrics
        self._words: deque[Word] = deque(maxlen=WORDS_MAX)

    def __repr__(self) -> str:
        return f"<GroundTruth {sum(self.counts.values())} words>"

    def read(self, event: LogEvent, worker: str, now: float) -> Word | None:
        """A log line of this worker; None where it says nothing of corruption."""
        if event.kind not in CORRUPTION:
            return None
        return self.hear(Word(event.kind, now, worker, event.rid, event.room, event.reason))

    def hear(self, word: Word) -> Word:
        self._words.append(word)
        place = (str(word.kind), word.worker)
        if place not in self.counts and len(self.counts) >= PLACES_MAX:
            place = (str(word.kind), "other")
        self.counts[place] += word.times
        self.new[place] += word.times
        return word

    def about(
        self, *, rid: str = "", rooms: Collection[int] = (), workers: Collection[str] = (), since: float = 0.0
    ) -> tuple[Word, ...]:
        """What was said of this request or these rooms, and since then (less a minute) of these workers."""
        near = since - NEAR_S
        return tuple(
            word
            for word in self._words
            if (rid and word.rid == rid)
            or (word.room != UNKNOWN and word.room in rooms)
            or (word.worker and word.worker in workers and word.at >= near)
        )

    def said(self, rid: str, workers: Collection[str], since: float) -> tuple[str, ...]:
        """The same in short, for a record: `kind` of this request, `worker:kind` of its workers."""
        words = self.about(rid=rid, workers=workers, since=since)
        names = {word.kind if word.rid == rid else f"worker:{word.kind}" for word in words}
        return tuple(sorted(names))

    def drain(self) -> Counter[tuple[str, str]]:
        """What was counted since the last call."""
        new, self.new = self.new, Counter()
        return new
