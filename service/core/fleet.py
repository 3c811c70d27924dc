"""What is known of the workers: who drafts, how many tokens, how well drafts are accepted when all is well.

The acceptance floor is learned from streams that ended clean: their accept rates fall into 50 bins a worker,
and the floor is the lower edge of the bin that holds the 0.1 % quantile. Under 3,000 streams there is none:
a quantile that nobody has seen is not a baseline, and some "clean" streams are corrupted ones that nobody
noticed, so that the lowest few must not set it.
"""

from math import isnan
from typing import Final

import msgspec

from service.core.baseline import Baselines
from service.core.events import Drafter, WorkerFacts

BINS: Final = 50
ENOUGH_STREAMS: Final = 3000
QUANTILE: Final = 0.001
MIN_STEPS: Final = 8
"""Verify steps under which a stream's own accept rate says too little to be counted."""


class Fleet:
    """Workers by URL."""

    __slots__ = ("_baselines", "_bins", "_workers")

    def __init__(self) -> None:
        self._workers: dict[str, WorkerFacts] = {}
        self._bins: dict[str, list[int]] = {}
        self._baselines: Baselines | None = None

    def __repr__(self) -> str:
        return f"<Fleet {len(self._workers)} workers>"

    def urls(self) -> tuple[str, ...]:
        return tuple(self._workers)

    def worker(self, url: str) -> WorkerFacts:
        """What is known of this worker; a stranger is a WorkerFacts that knows nothing."""
        return self._workers.get(url) or WorkerFacts(url=url)

    def know(self, url: str, drafter: Drafter, draft_tokens: int) -> None:
        """The worker's own description, from its server info; what was learned of it stays."""
        floor = self.worker(url).accept_floor
        anchors = self._baselines.anchors("", url, draft_tokens) if self._baselines else None
        self._workers[url] = WorkerFacts(url, drafter, draft_tokens, floor, anchors)

    def calibrate(self, baselines: Baselines) -> None:
        """Hold every worker, known now or later, to what a calibration has learned."""
        self._baselines = baselines
        for facts in tuple(self._workers.values()):
            self.know(facts.url, facts.drafter, facts.draft_tokens)

    def forget(self, url: str) -> None:
        self._workers.pop(url, None)
        self._bins.pop(url, None)

    def clean_stream(self, url: str, accept_length: float, steps: int) -> None:
        """A stream of this worker ended with nothing found; learn from its accept length."""
        facts = self._workers.get(url)
        if facts is None or facts.draft_tokens < 1 or steps < MIN_STEPS or isnan(accept_length):
            return
        rate = min(max((accept_length - 1) / facts.draft_tokens, 0.0), 1.0)
        bins = self._bins.setdefault(url, [0] * BINS)
        bins[min(int(rate * BINS), BINS - 1)] += 1
        if sum(bins) >= ENOUGH_STREAMS:
            self._workers[url] = msgspec.structs.replace(facts, accept_floor=_quantile(bins))


def _quantile(bins: list[int]) -> float:
    """Lower edge of the bin that holds the 0.1 % quantile."""
    below, total = 0, sum(bins)
    for place, count in enumerate(bins):
        below += count
        if below > QUANTILE * total:
            return place / BINS
    return 0.0
