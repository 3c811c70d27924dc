"""The inspector: one attempt of one request under the eyes of all detectors, choice by choice.

It turns batches of deltas into looks, hands each look to every detector, keeps what each said last, and has
it fused when something changed. A detector that raises is counted, switched off for this stream, and the
stream goes on (fail open). Memory: the tail of each choice and the detectors' own bounded states.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import nan
from typing import Any

from service.core.choice import Choice
from service.core.detectors.protocol import Detector
from service.core.events import (
    CLEAN,
    UNKNOWN,
    Delta,
    Finding,
    Judgement,
    Look,
    RequestFacts,
    StepKind,
    WorkerFacts,
)
from service.core.fusion import Fusion


class Inspector:
    """All choices of one attempt."""

    __slots__ = (
        "_choices",
        "_detectors",
        "_facts",
        "_fusion",
        "_unarmed",
        "_worker",
        "faults",
        "judgement",
    )

    def __init__(
        self,
        facts: RequestFacts,
        worker: WorkerFacts,
        detectors: Sequence[Detector[Any]],
        fusion: Fusion,
        *,
        unarmed: frozenset[str] = frozenset(),
    ) -> None:
        self.judgement = CLEAN
        self.faults: dict[str, int] = {}
        self._facts = facts
        self._worker = worker
        self._detectors: list[Detector[Any] | None] = list(detectors)
        self._fusion = fusion
        self._unarmed = unarmed  # detectors that are asked and not acted upon
        self._choices: list[Choice] = []

    def __repr__(self) -> str:
        return (
            f"<Inspector {self.judgement.level.name} {self.judgement.kind} choices={len(self._choices)}"
            f" tokens={self.tokens} steps={self.steps} faults={self.faults}>"
        )

    # --- what an incident keeps ---

    def findings(self) -> tuple[Finding, ...]:
        """What each detector said last, choice by choice."""
        return tuple(finding for choice in self._choices for finding in choice.findings.values())

    @property
    def doubt(self) -> float:
        """How strongly the findings on the most suspect choice speak."""
        return max((self._fusion.doubt(self._armed(choice)) for choice in self._choices), default=0.0)

    @property
    def tokens(self) -> int:
        """Completion tokens of all choices; UNKNOWN while nobody told us."""
        known = [choice.tokens for choice in self._choices if choice.tokens != UNKNOWN]
        return sum(known) if known else UNKNOWN

    @property
    def tail(self) -> str:
        """The last text of the choice that was judged, for a case where the owner captures text."""
        judged = (choice.tail for choice in self._choices if choice.index == self.judgement.choice)
        return next(judged, "")

    @property
    def accepted(self) -> tuple[int, ...]:
        """Accepted drafts of the judged choice, verify step by step, the last ones."""
        judged = (choice.history for choice in self._choices if choice.index == self.judgement.choice)
        return tuple(step.accepted for step in next(judged, ()))

    @property
    def ids(self) -> Iterator[int]:
        """Token ids of all choices, where the dialect shows them."""
        return chain.from_iterable(choice.said for choice in self._choices if choice.said)

    @property
    def steps(self) -> int:
        """Verify steps: the engine's own count where it gave one."""
        return sum(c.verified if c.verified > 0 else c.counter.steps for c in self._choices)

    @property
    def accept_length(self) -> float:
        """Tokens a verify step, the bonus token included; nan without steps."""
        steps = self.steps
        accepted = sum(c.accepted if c.verified > 0 else c.counter.accepted for c in self._choices)
        return 1 + accepted / steps if steps else nan

    @property
    def step_kind(self) -> StepKind:
        """How well verify steps are known; of several choices, the least."""
        kinds = {choice.counter.kind for choice in self._choices} or {StepKind.NONE}
        return next(kind for kind in (StepKind.NONE, StepKind.UPPER, StepKind.EXACT) if kind in kinds)

    def errors(self) -> list[tuple[StepKind, float]]:
        """Of each choice whose engine told the totals: how far our accept length is from the true one."""
        return [
            (c.counter.kind, c.counter.accepted / c.counter.steps - c.accepted / c.verified)
            for c in self._choices
            if c.verified > 0 and c.counter.steps
        ]

    def answered_by(self, worker: WorkerFacts) -> None:
        """The worker is known after all; choices that have begun stay as they are."""
        self._worker = worker

    # --- what the monitor calls ---

    def read(self, deltas: Sequence[Delta], now: float) -> Judgement:
        """One inspection over a batch of data events, whatever choices they belong to."""
        if not deltas:
            return self.judgement
        if self._facts.choices <= 1:
            self._inspect(0, deltas, now)
        else:
            for index in Counter(delta.choice for delta in deltas):
                self._inspect(index, [delta for delta in deltas if delta.choice == index], now)
        return self._worst()

    def quiet(self, quiet_s: float, now: float) -> Judgement:
        """No data event for `quiet_s`, our own backpressure taken out."""
        if not self._choices:
            self._choice(0)
        for choice in self._choices:
            if not choice.ended:
                self._show(choice, choice.look(now, quiet_s=quiet_s))
        return self._worst()

    def finish(self, now: float, clean: bool) -> Judgement:
        """The stream ended; the last look. `clean` is false where it was cut off."""
        for choice in self._choices:
            if clean:
                choice.close()
            self._show(choice, choice.look(now))
        return self._worst()

    # --- within ---

    def _inspect(self, index: int, deltas: Sequence[Delta], now: float) -> None:
        choice = self._choice(index)
        if choice is not None:
            for look in choice.read(deltas, now):
                self._show(choice, look)

    def _choice(self, index: int) -> Choice | None:
        """The choice of this index; None for one that the client did not ask for."""
        if not 0 <= index < max(self._facts.choices, 1):
            return None
        for choice in self._choices:
            if choice.index == index:
                return choice
        choice = Choice(index, self._worker, self._start())
        self._choices.append(choice)
        return choice

    def _start(self) -> list[Any]:
        states: list[Any] = []
        for place, detector in enumerate(self._detectors):
            try:
                states.append(detector.start(self._facts, self._worker) if detector else None)
            except Exception:  # noqa: BLE001 - fail open, as in `_show`
                self._switch_off(place)
                states.append(None)
        return states

    def _show(self, choice: Choice, look: Look) -> None:
        changed, states = False, choice.states
        for place, detector in enumerate(self._detectors):
            if detector is None:
                continue
            try:
                finding = detector.look(states[place], look)
            except Exception:  # noqa: BLE001 - fail open: one broken rule must not break a stream
                self._switch_off(place)
                continue
            if finding is not None:
                choice.findings[finding.detector] = finding
                changed = True
        if changed:
            choice.judgement = self._fusion.judge(self._armed(choice), choice.index)

    def _armed(self, choice: Choice) -> Iterable[Finding]:
        said = choice.findings.values()
        return [one for one in said if one.detector not in self._unarmed] if self._unarmed else said

    def _switch_off(self, place: int) -> None:
        broken = self._detectors[place]
        if broken is not None:
            self.faults[broken.name] = self.faults.get(broken.name, 0) + 1
            self._detectors[place] = None

    def _worst(self) -> Judgement:
        worst = self.judgement
        for choice in self._choices:
            said = choice.judgement
            if said is not CLEAN and (said.level, said.log10_e) >= (worst.level, worst.log10_e):
                worst = said
        self.judgement = worst
        return worst
