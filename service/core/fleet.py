"""What is known of the workers: who drafts, how many tokens, how well drafts are accepted when all is well.

Healthy acceptance is learned from streams that ended clean, by kind of request (`baseline`), on top of what a
calibration has found; a worker that an alert stands against teaches nothing. Where a worker refuses drafts in
general and the texts are clean, its draft is at fault (`commoncause`), and acceptance says nothing there.

All of it happens at the end of a stream: 20 us, and 2 ms once in `REFRESH` streams of a worker.
"""

from collections.abc import Collection
from math import isnan
from typing import Final

from msgspec import structs

from service.core.baseline import Baselines, key_of
from service.core.commoncause import CommonCause
from service.core.events import Drafter, RequestFacts, WorkerFacts

REFRESH: Final = 256
"""Clean streams of a worker from one look at its baselines to the next."""

REFUSED: Final = 0.15
"""Accepted drafts of those offered, at most, that keep up a fault of the draft once it is known."""

MIN_STEPS: Final = 8
"""Verify steps under which a stream's own accept rate says too little to be counted."""


class Fleet:
    """Workers by URL."""

    __slots__ = ("_baselines", "_causes", "_fresh", "_workers")

    def __init__(self) -> None:
        self._workers: dict[str, WorkerFacts] = {}
        self._fresh: dict[str, int] = {}  # clean streams since its anchors were made
        self._baselines = Baselines()
        self._causes = CommonCause()

    def __repr__(self) -> str:
        return f"<Fleet {len(self._workers)} workers>"

    def urls(self) -> tuple[str, ...]:
        return tuple(self._workers)

    def worker(self, url: str) -> WorkerFacts:
        """What is known of this worker; a stranger is a WorkerFacts that knows nothing."""
        return self._workers.get(url) or WorkerFacts(url=url)

    def know(self, url: str, drafter: Drafter, draft_tokens: int) -> None:
        """The worker's own description, from its server info; what was learned of it stays."""
        known = self._workers.get(url)
        if known is None or known.draft_tokens != draft_tokens:
            self._hold(WorkerFacts(url, drafter, draft_tokens))
        elif known.drafter is not drafter:
            self._workers[url] = structs.replace(known, drafter=drafter)

    def calibrate(self, baselines: Baselines) -> None:
        """Hold every worker, known now or later, to what a calibration has learned, and go on from there."""
        self._baselines = baselines
        for facts in tuple(self._workers.values()):
            self._hold(facts)

    def _hold(self, facts: WorkerFacts) -> None:
        """Hold a worker to the anchors that its baselines give now."""
        anchors = self._baselines.anchors(facts.url, facts.draft_tokens)
        self._workers[facts.url] = structs.replace(facts, anchors=anchors)

    def forget(self, url: str) -> None:
        self._workers.pop(url, None)
        self._fresh.pop(url, None)
        self._causes.forget(url)

    def freeze(self, urls: Collection[str]) -> None:
        """Alerts stand against these workers, and against no others: nothing is learned of them."""
        self._baselines.freeze(urls)

    def clean_stream(self, url: str, request: RequestFacts, accept_length: float, steps: int) -> None:
        """A stream of this worker ended with nothing found; learn from its accept length."""
        facts = self._workers.get(url)
        if facts is None or facts.draft_tokens < 1 or facts.draft_fault:
            return
        if steps < MIN_STEPS or isnan(accept_length):
            return
        depth = facts.draft_tokens
        key = key_of(request.model, url, depth, request.temperature, grammar=request.wants_json)
        accepted = min(max(accept_length - 1, 0.0), depth) * steps
        if not self._baselines.learn_mean(key, [(steps, accepted)], depth):
            return
        fresh = self._fresh[url] = self._fresh.get(url, 0) + 1
        if fresh >= REFRESH:
            self._fresh[url] = 0
            self._hold(facts)

    def over(self, url: str, *, low: bool, found: bool, accept_length: float) -> bool:
        """A generation is over: `low` acceptance was suspected, `found` says whether anything else was.

        The answer: whether this worker's draft has just turned out to be at fault.
        """
        facts = self._workers.get(url)
        if facts is None or facts.draft_tokens < 1 or isnan(accept_length):
            return False
        if facts.draft_fault:  # the detector is silent: judge by the mean
            low = accept_length - 1 <= REFUSED * facts.draft_tokens
        told = self._causes.over(url, low=low, found=found)
        fault = self._causes.is_broken(url)
        if fault is not facts.draft_fault:
            self._workers[url] = structs.replace(facts, draft_fault=fault)
        return told
