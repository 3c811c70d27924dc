"""The inspector: one attempt of one request under the eyes of all detectors, choice by choice.

It turns batches of deltas into looks (new text, UTF-8 tail, verify steps, clock marks), hands each look to
every detector, keeps what each said last, and has it fused when something changed. Long texts are cut into
pieces so that half of the tail is always history; detectors work on grids of their own, so neither these
cuts nor the grouping of events shows in the kind of a verdict.

A detector that raises is counted, switched off for this stream, and the stream goes on (fail open). Memory:
8 KiB of tail a choice and the detectors' own bounded states.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import nan
from typing import Any, Final

from service.core.acceptance import StepCounter
from service.core.detectors.protocol import Detector
from service.core.events import (
    CLEAN,
    UNKNOWN,
    Delta,
    Finding,
    Judgement,
    Look,
    RequestFacts,
    Step,
    WorkerFacts,
)
from service.core.fusion import Fusion

TAIL_BYTES: Final = 8192
"""What detectors may look back on."""

PIECE_CHARS: Final = 1024
"""Text of one look at most: 4 KiB of the widest UTF-8, which leaves the other half of the tail as history."""

GAPS: Final = 9
"""Gaps kept for the median: it follows the stream within five events and costs 100 bytes."""


class _Choice:
    """One of the n answers of a request."""

    __slots__ = (
        "_gap_at", "_gaps", "_last_at", "_steps", "_tail", "_text_tokens", "accepted", "chars", "counter",
        "ended", "findings", "finish", "index", "judgement", "states", "tokens", "verified",
    )  # fmt: skip

    def __init__(self, index: int, worker: WorkerFacts, states: list[Any]) -> None:
        self.index = index
        self.states = states
        self.counter = StepCounter(worker.draft_tokens)
        self.findings: dict[str, Finding] = {}
        self.judgement = CLEAN
        self.chars = 0
        self.tokens = UNKNOWN
        self.accepted = UNKNOWN  # the engine's own totals, from the final chunk
        self.verified = UNKNOWN
        self.ended = False
        self.finish = ""
        self._tail = b""
        self._steps: list[Step] = []
        self._text_tokens = UNKNOWN  # tokens at the last event with text; UNKNOWN where it named none
        self._last_at = -1.0  # before the first event; a monotonic clock is never negative
        self._gaps: list[float] = []
        self._gap_at = 0

    def read(self, deltas: Sequence[Delta], now: float) -> Iterable[Look]:
        """The looks that these events make; one, unless the text is long."""
        before = tokens = self.tokens
        text = "".join([delta.text for delta in deltas])
        self.counter.read(deltas, self._steps)
        for delta in deltas:
            tokens = max(tokens, delta.tokens)
            if delta.text:
                self._text_tokens = delta.tokens
            if delta.finish:
                self.ended, self.finish = True, delta.finish
            if delta.steps > 0:
                self.accepted, self.verified = delta.accepted, delta.steps
        self.tokens = tokens
        self._clock(now, len(deltas))
        if len(text) <= PIECE_CHARS:
            return (self.look(now, text),)
        return self._pieces(text, before, now)

    def look(self, now: float, text: str = "", quiet_s: float = 0.0) -> Look:
        """One look; takes the steps collected so far."""
        if text:
            self.chars += len(text)
            self._tail = (self._tail + text.encode("utf-8", "replace"))[-TAIL_BYTES:]
        steps, self._steps = tuple(self._steps), []
        return Look(
            at=now,
            text=text,
            tail=self._tail,
            chars=self.chars,
            tokens=self.tokens,
            steps=steps,
            step_kind=self.counter.kind,
            quiet_s=quiet_s,
            gap_s=self._gap_s() if quiet_s else 0.0,
            grown=self._grown(),
            ended=self.ended,
            finish=self.finish,
        )

    def close(self) -> None:
        self.counter.close(self._steps)
        self.ended = True

    def _pieces(self, text: str, before: int, now: float) -> Iterable[Look]:
        """Looks over a long text; tokens are spread evenly over it, the end of stream shows in the last."""
        tokens, ended, length = self.tokens, self.ended, len(text)
        self.ended = False
        for start in range(0, length, PIECE_CHARS):
            stop = min(start + PIECE_CHARS, length)
            if stop == length:
                self.tokens, self.ended = tokens, ended
            elif tokens != UNKNOWN:
                self.tokens = max(before, 0) + (tokens - max(before, 0)) * stop // length
            yield self.look(now, text[start:stop])

    def _clock(self, now: float, events: int) -> None:
        if self._last_at >= 0:
            gap = (now - self._last_at) / events
            if len(self._gaps) < GAPS:
                self._gaps.append(gap)
            else:
                self._gaps[self._gap_at] = gap
                self._gap_at = (self._gap_at + 1) % GAPS
        self._last_at = now

    def _gap_s(self) -> float:
        return sorted(self._gaps)[len(self._gaps) // 2] if self._gaps else 0.0

    def _grown(self) -> int:
        if self.tokens == UNKNOWN:
            return 0
        if not self.chars:
            return self.tokens
        return self.tokens - self._text_tokens if self._text_tokens != UNKNOWN else 0


class Inspector:
    """All choices of one attempt."""

    __slots__ = ("_choices", "_detectors", "_facts", "_fusion", "_worker", "faults", "judgement")

    def __init__(
        self,
        facts: RequestFacts,
        worker: WorkerFacts,
        detectors: Sequence[Detector[Any]],
        fusion: Fusion,
    ) -> None:
        self.judgement = CLEAN
        self.faults: dict[str, int] = {}
        self._facts = facts
        self._worker = worker
        self._detectors: list[Detector[Any] | None] = list(detectors)
        self._fusion = fusion
        self._choices: list[_Choice] = []

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
    def tokens(self) -> int:
        """Completion tokens of all choices; UNKNOWN while nobody told us."""
        known = [choice.tokens for choice in self._choices if choice.tokens != UNKNOWN]
        return sum(known) if known else UNKNOWN

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

    def _choice(self, index: int) -> _Choice | None:
        """The choice of this index; None for one that the client did not ask for."""
        if not 0 <= index < max(self._facts.choices, 1):
            return None
        for choice in self._choices:
            if choice.index == index:
                return choice
        choice = _Choice(index, self._worker, self._start())
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

    def _show(self, choice: _Choice, look: Look) -> None:
        changed = False
        for place, detector in enumerate(self._detectors):
            if detector is None:
                continue
            try:
                finding = detector.look(choice.states[place], look)
            except Exception:  # noqa: BLE001 - fail open: one broken rule must not break a stream
                self._switch_off(place)
                continue
            if finding is not None:
                choice.findings[finding.detector] = finding
                changed = True
        if changed:
            choice.judgement = self._fusion.judge(choice.findings.values(), choice.index)

    def _switch_off(self, place: int) -> None:
        broken = self._detectors[place]
        if broken is not None:
            self.faults[broken.name] = self.faults.get(broken.name, 0) + 1
            self._detectors[place] = None

    def _worst(self) -> Judgement:
        worst = self.judgement
        for choice in self._choices:
            said = choice.judgement
            if (said.level, said.log10_e) >= (worst.level, worst.log10_e) and said is not CLEAN:
                worst = said
        self.judgement = worst
        return worst
