"""The detector contract: a frozen rule, a small mutable state a stream, one call an inspection.

A detector is built once from `rules/sets/*.yaml` and shared by all streams; everything it remembers of a
stream is in the state that `start` hands out. `look` may change that state and nothing else, answers from
its arguments alone, and costs O(new text): 5 us a token is the budget of all detectors together. State is
bounded (4 KB a stream; the text tail it may read is the Look's). It runs inside the tick of a chunk: no
await, no log, no lock.

Evidence is an e-value: under a healthy stream its expectation is at most 1, so that P(e >= 1/a) <= a.
Rules without a null model state a calibrated likelihood ratio instead, and say where it comes from.
"""

from typing import Protocol, TypeVar

from service.core.events import Channel, Finding, Look, RequestFacts, WorkerFacts

State = TypeVar("State")


class Detector(Protocol[State]):
    """One idea about how a corrupted generation shows."""

    @property
    def name(self) -> str:
        """The rule's name: metric label, key in the rule set, part of the signature."""
        ...

    @property
    def channel(self) -> Channel:
        """Where its evidence comes from."""
        ...

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> State:
        """State for one choice of one attempt."""
        ...

    def look(self, state: State, look: Look) -> Finding | None:
        """Advance by one inspection; a finding when what it has to say has changed."""
        ...
