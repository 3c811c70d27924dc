"""What the probes of all workers report, put in order by request: exact verify steps, where they come from.

A datagram names requests by a 64-bit hash of their rid. Every step is appended to its request's series,
whether or not a stream of ours asks for it: the first datagram is here before the first chunk is. A row
carries the number of its step, so whatever was lost shows as a gap in the series it was lost from; the steps
after a gap are as exact as those before.

A counter that does not grow, or an epoch older than the present one, is counted and dropped. An old epoch is
taken again only after a minute of silence: a worker's clock may have been set back. What a replay could then
append belongs to rids that no stream has any more.

Bounds: requests live in two generations of `STREAMS_MAX`, the older dropped as the younger fills or after two
minutes without a row; `MAX_UNTAKEN` steps a request; `SENDERS_MAX` senders. 70 MB at the worst.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from service.core.events import UNKNOWN
from service.core.telemetry_wire import NO_ROOM, NO_STEP, Fault, Load, Role, Status, StepRows, read

STREAMS_MAX: Final = 65_536
GENERATION_S: Final = 120.0
MAX_UNTAKEN: Final = 512
"""Looked at when a request's step number is a multiple of it, or is not the next: twice as many at most."""
SENDERS_MAX: Final = 1024
OLD_EPOCH_S: Final = 60.0
LIVE_S: Final = 30.0
"""A probe heard within this time covers its worker; its status comes every 10 s of work."""


class Sender(msgspec.Struct):
    """One scheduler process, as its datagrams describe it."""

    name: str
    role: Role
    dp_rank: int
    epoch: int
    counter: int = -1  # of the newest datagram
    heard_at: float = float("-inf")
    missed: int = 0  # datagrams that never came
    lost: int = 0  # of these, given up by the probe itself (over all its sidecars)
    depth: int = 0
    load: Load = Load()
    aside: bool = False
    text: str = ""  # the engine's version, or why the probe stood aside

    def live(self, now: float) -> bool:
        return not self.aside and now - self.heard_at < LIVE_S


class Pair(msgspec.Struct):
    """The two workers that one bootstrap room was seen on; "" where it was not."""

    prefill: str = ""
    decode: str = ""


class _Series:
    """The steps of one request."""

    __slots__ = ("next", "pair", "sender", "steps", "whole")

    def __init__(self, sender: Sender, first: int, pair: Pair | None = None) -> None:
        self.sender = sender
        self.steps = bytearray()  # accepted drafts, not taken yet
        self.next = first
        self.whole = first == 1  # no step of it is missing
        self.pair = pair


class ProbeFeed:
    """All probes' reports; `take` is what a stream reads."""

    def __init__(self, streams_max: int = STREAMS_MAX) -> None:
        self.counts: Counter[str] = (
            Counter()
        )  # datagrams, rows, streams, gaps, and everything refused, by reason
        self._streams_max = streams_max
        self._young: dict[int, _Series] = {}
        self._old: dict[int, _Series] = {}
        self._rooms: dict[int, Pair] = {}
        self._old_rooms: dict[int, Pair] = {}
        self._senders: dict[tuple[str, int, Role], Sender] = {}
        self._flipped_at = float("-inf")

    def __repr__(self) -> str:
        return f"<ProbeFeed {len(self._senders)} senders, {len(self._young) + len(self._old)} streams>"

    @property
    def heard(self) -> bool:
        """Whether any probe has ever reported; while none has, a stream need not ask."""
        return bool(self._senders)

    # --- what streams ask; a request is named by its rid, or by the rid's key ---

    def take(self, request: str | int) -> tuple[int, ...]:
        """Accepted draft tokens of each verify step of this request since the last call."""
        series = self._find(request)
        if series is None or not series.steps:
            return ()
        steps = tuple(series.steps)
        series.steps.clear()
        return steps

    def whole(self, request: str | int) -> bool:
        """Whether every step of this request has come so far."""
        series = self._find(request)
        return series is not None and series.whole

    def worker(self, request: str | int) -> str:
        """The worker that decodes this request; "" for unknown."""
        series = self._find(request)
        return series.sender.name if series is not None else ""

    def dp_rank(self, request: str | int) -> int:
        """The data-parallel rank that decodes this request; UNKNOWN where there is none, or nobody told."""
        series = self._find(request)
        return series.sender.dp_rank if series is not None else UNKNOWN

    def pair(self, request: str | int) -> Pair:
        """The prefill and the decode worker of this request, as far as their probes were heard."""
        series = self._find(request)
        return Pair() if series is None or series.pair is None else series.pair

    def covers(self, url: str, now: float) -> bool:
        """Whether a live probe reports from this worker: then its streams need not be asked for growth."""
        return any(
            sender.name == url and sender.live(now) and sender.role is not Role.PREFILL
            for sender in self._senders.values()
        )

    def senders(self) -> tuple[Sender, ...]:
        return tuple(self._senders.values())

    # --- what the receiver brings ---

    def read(self, datagram: bytes, now: float, key: bytes = b"") -> None:
        """Take in one datagram. Never raises."""
        report = read(datagram, key)
        if isinstance(report, Fault):
            self.counts[report] += 1
            return
        sender = self._admit(report, now)
        if sender is None:
            return
        if isinstance(report, Status):
            sender.aside, sender.text = report.aside, report.text
            self.counts["statuses"] += 1
            return
        sender.depth, sender.load = report.depth, report.load
        self.counts["datagrams"] += 1
        self.counts["rows"] += len(report.keys)
        if NO_STEP in report.accepted or sender.role is Role.PREFILL:
            self._arrivals(sender, report)
        else:
            self._append(sender, report.keys, report.steps, report.accepted)

    def tick(self, now: float) -> None:
        """Let requests go that nobody has spoken of for two minutes."""
        if now - self._flipped_at >= GENERATION_S:
            self._flip(now)

    # --- inside ---

    def _admit(self, report: StepRows | Status, now: float) -> Sender | None:
        """The sender, if this datagram is news of it."""
        sent = report.sent
        place = (sent.name, sent.dp_rank, sent.role)
        sender = self._senders.get(place)
        if sender is None or sent.epoch != sender.epoch:
            if sender is None and len(self._senders) >= SENDERS_MAX:
                self.counts["senders_full"] += 1
                return None
            if sender is not None and sent.epoch < sender.epoch and now - sender.heard_at < OLD_EPOCH_S:
                self.counts["old_epoch"] += 1
                return None
            sender = self._senders[place] = Sender(sent.name, sent.role, sent.dp_rank, sent.epoch)
            sender.counter = sent.counter - 1
        if sent.counter <= sender.counter:
            self.counts["old_counter"] += 1
            return None
        if missed := sent.counter - sender.counter - 1:
            sender.missed += missed
            self.counts["missed"] += missed
        sender.counter, sender.heard_at, sender.lost = sent.counter, now, sent.lost
        return sender

    def _append(self, sender: Sender, keys: Sequence[int], steps: Sequence[int], accepted: bytes) -> None:
        """A verify step of every request."""
        young = self._young
        for key, step, count in zip(keys, steps, accepted, strict=True):
            series = young.get(key)
            if series is None:
                series = self._found(sender, key, step)
                young = self._young
            if series.next != step:
                self._gap(series)
            series.next = step + 1
            series.steps.append(count)
            if not step % MAX_UNTAKEN and len(series.steps) > MAX_UNTAKEN:
                self._overflow(series)

    def _arrivals(self, sender: Sender, report: StepRows) -> None:
        """Requests seen for the first time, beside others or alone. A prefill worker has no other rows."""
        rooms = report.rooms or (NO_ROOM,) * len(report.keys)
        moving: list[int] = []
        for row, (key, room) in enumerate(zip(report.keys, rooms, strict=True)):
            if report.accepted[row] != NO_STEP:
                moving.append(row)
                continue
            pair = None if room == NO_ROOM else self._pair(room, sender)
            if sender.role is not Role.PREFILL:
                self._new(sender, key, 1, pair)
        if moving and sender.role is not Role.PREFILL:
            keys, steps = [report.keys[row] for row in moving], [report.steps[row] for row in moving]
            self._append(sender, keys, steps, bytes(report.accepted[row] for row in moving))

    def _pair(self, room: int, sender: Sender) -> Pair:
        pair = self._rooms.get(room) or self._old_rooms.get(room)
        if pair is None:
            if len(self._rooms) >= self._streams_max:
                self._flip(self._flipped_at)
            pair = self._rooms[room] = Pair()
        if sender.role is Role.PREFILL:
            pair.prefill = sender.name
        else:
            pair.decode = sender.name
        return pair

    def _find(self, request: str | int) -> _Series | None:
        key = key_of(request) if isinstance(request, str) else request
        return self._young.get(key) or self._old.get(key)

    def _found(self, sender: Sender, key: int, step: int) -> _Series:
        """A request that is not among the young: an old one, or one whose arrival we did not see."""
        series = self._old.pop(key, None)
        if series is None:
            self.counts["joined_late"] += step != 1
            return self._new(sender, key, step)
        return self._put(key, series)

    def _new(self, sender: Sender, key: int, first: int, pair: Pair | None = None) -> _Series:
        self.counts["streams"] += 1
        self._old.pop(key, None)
        return self._put(key, _Series(sender, first, pair))

    def _put(self, key: int, series: _Series) -> _Series:
        if len(self._young) >= self._streams_max:
            self._flip(self._flipped_at)
        self._young[key] = series
        return series

    def _flip(self, now: float) -> None:
        self._flipped_at = now
        self._old, self._young = self._young, {}
        self._old_rooms, self._rooms = self._rooms, {}

    def _gap(self, series: _Series) -> None:
        series.whole = False
        self.counts["gaps"] += 1
        if len(series.steps) > MAX_UNTAKEN:
            self._overflow(series)

    def _overflow(self, series: _Series) -> None:
        """Nobody takes these: another sidecar's stream, or a client that does not read."""
        series.steps.clear()
        series.whole = False
        self.counts["untaken"] += 1


def key_of(rid: str) -> int:
    """How a datagram names this request."""
    digest = blake2b(rid.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
