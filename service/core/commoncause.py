"""Common cause: where many streams trip low acceptance and their text is clean, the draft is broken.

A draft head that was never loaded, a weight update that the draft missed, drafts that HiCache lost:
acceptance falls for everybody and every answer is right (vllm#55605). Aborting would multiply the load. So
the share of streams that tripped without a word from text, structure, silence or provenance is kept for each
worker; above `SHARE` of at least `STREAMS` streams it is the worker's fault and not the streams': raise an
alert, let acceptance be no evidence there. It ends once the share has halved. Counts age by streams, half
after `HALF_LIFE`; there is no clock. Pure counts: who asks decides. Cost: 1 us a stream.
"""

from typing import Final

SHARE: Final = 0.25
"""Of a worker's streams. Corruption in production is 3 to 5 in 10,000, but a race under load may strike some
in a hundred, with fluent text: at a smaller share the guard would shut the eyes of the only witness."""

STREAMS: Final = 40.0
"""Streams under which nothing is concluded: ten of forty are no accident of 1 in 1,000."""

HALF_LIFE: Final = 200.0

WORKERS_MAX: Final = 4096


class _Counts:
    """What one worker's streams did, weighed by age."""

    __slots__ = ("broken", "streams", "tripped")

    def __init__(self) -> None:
        self.streams = 0.0
        self.tripped = 0.0
        self.broken = False


class CommonCause:
    """Workers by URL."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, _Counts] = {}

    def __repr__(self) -> str:
        return f"<CommonCause {len(self._counts)} workers, broken: {len(self.broken())}>"

    def over(self, worker: str, *, low: bool, found: bool) -> bool:
        """A stream is over: `low` acceptance was suspected, `found` says whether anything else was.

        The answer: whether the worker's draft has just turned out to be broken, for the alert.
        """
        counts = self._counts.get(worker)
        if counts is None:
            if len(self._counts) >= WORKERS_MAX:
                return False
            counts = self._counts[worker] = _Counts()
        keep = 0.5 ** (1 / HALF_LIFE)
        counts.streams = counts.streams * keep + 1
        counts.tripped = counts.tripped * keep + (low and not found)
        was, share = counts.broken, counts.tripped / counts.streams
        if was:
            counts.broken = share > SHARE / 2
        else:
            counts.broken = counts.streams >= STREAMS and share > SHARE
        return counts.broken and not was

    def is_broken(self, worker: str) -> bool:
        """Whether low acceptance says nothing about this worker's streams now."""
        counts = self._counts.get(worker)
        return counts is not None and counts.broken

    def broken(self) -> tuple[str, ...]:
        return tuple(worker for worker, counts in self._counts.items() if counts.broken)

    def share(self, worker: str) -> float:
        """Of its streams, those that tripped with clean text."""
        counts = self._counts.get(worker)
        return counts.tripped / counts.streams if counts and counts.streams else 0.0

    def forget(self, worker: str) -> None:
        self._counts.pop(worker, None)
