"""Acceptance out of snapshots of live streams: tokens and accept length so far, a second apart.

Between two snapshots of one stream lie whole verify steps, of which the mean is known and no more. Streams
that are suspected of anything are left out whole; so are stretches too short to say something.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from service.core.baseline import Key

STRETCH_STEPS: Final = 8
STREAMS_MAX: Final = 100_000
LIVE: Final = "live"
"""The stratum of what snapshots tell: they do not know the request."""


class _Stream:
    """One attempt, as far as it was seen."""

    __slots__ = ("accepted", "clean", "steps", "stretches", "worker")

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.clean = True
        self.steps = 0.0
        self.accepted = 0.0
        self.stretches: list[tuple[float, float]] = []  # steps and accepted drafts between two snapshots


class Watch:
    """All streams seen so far."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._streams: dict[tuple[str, int], _Stream] = {}

    def __repr__(self) -> str:
        return f"<Watch {len(self._streams)} streams>"

    @property
    def not_clean(self) -> int:
        return sum(not stream.clean for stream in self._streams.values())

    def see(self, snapshot: Mapping[str, Any]) -> None:
        """One snapshot of `/api/streams`."""
        for row in snapshot.get("streams", ()):
            key = str(row["rid"]), int(row["attempt"])
            if key not in self._streams and len(self._streams) >= STREAMS_MAX:
                continue
            stream = self._streams.setdefault(key, _Stream(str(row["worker"])))
            stream.clean = stream.clean and row["level"] == "clean"
            self._note(stream, row.get("tokens"), row.get("accept_length"))

    def _note(self, stream: _Stream, tokens: float | None, length: float | None) -> None:
        if not tokens or not length or length < 1:
            return
        steps = tokens / length
        accepted = tokens - steps
        if steps - stream.steps < STRETCH_STEPS:
            return
        if stream.steps:
            stream.stretches.append((steps - stream.steps, max(accepted - stream.accepted, 0.0)))
        stream.steps, stream.accepted = steps, accepted

    def clean(self) -> Iterator[tuple[Key, tuple[list[tuple[float, float]], int]]]:
        """What can be learned from: the key, and the stretches of a stream with the drafts a step."""
        for stream in self._streams.values():
            if stream.clean and stream.stretches:
                yield Key("", stream.worker, self._depth, LIVE), (stream.stretches, self._depth)
