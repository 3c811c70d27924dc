"""Verify steps out of a stream: what each step of speculative decoding accepted.

Two sources. `exact`: the probe names the accepted drafts of every step. `upper`: the growth g of the
engine's own `completion_tokens` from event to event; a step emits its accepted drafts and one bonus token,
so accepted = g - 1. Events only ever merge, so that is an upper bound; g > k + 1 can only be several steps
and is given out as one `Step(k, g - 1)` that accepted more than it drafted: whoever weighs it knows.

Three tokens are not evidence. The first chunk is the hand-off token of prefill: no step. The last step is
trimmed by the stop token or the limit: it is censored, i.e. `Step(a, a)`, "at least a were accepted". And
so the newest step is held until the next one shows that it was not the last.

Where nobody told k, or it changes from step to step, steps say so: `Step(UNKNOWN, a)`; a step of none is
still a refusal, any other may have been a full one. Cost: 0.25 us a data event, O(1) memory.
"""

from collections.abc import Iterable, MutableSequence, Sequence
from functools import lru_cache
from typing import Final

from service.core.events import UNKNOWN, Delta, Step, StepKind

MAX_DRAFTS: Final = 256
"""Draft tokens of a step at most; real ones have 2 to 64."""

MAX_TOKENS: Final = 1 << 62
"""More than any stream has: where k is unknown, any growth may be one step's."""

MERGED: Final = 4
"""Full steps that one event may stand for; growth beyond that is a gap in what we were told."""


class StepCounter:
    """The verify steps of one choice of one attempt, counted as they arrive."""

    __slots__ = (
        "_covered", "_depth", "_first", "_held", "_ladder", "_tokens", "accepted", "kind", "steps",
    )  # fmt: skip

    def __init__(self, draft_tokens: int) -> None:
        self.kind = StepKind.NONE
        self.steps = 0  # given out or held
        self.accepted = 0  # draft tokens those steps accepted
        self._depth = min(draft_tokens, MAX_DRAFTS) if draft_tokens > 0 else UNKNOWN  # k
        self._ladder = ladder(self._depth)
        self._tokens = 0  # completion tokens at the last event; 0 before the hand-off token
        self._first = 0  # of these, tokens of the first event
        self._covered = 0  # tokens whose steps growth had told before the probe did
        self._held = 0  # growth of the newest step; 0 for none

    def __repr__(self) -> str:
        return f"<StepCounter {self.kind} steps={self.steps} accepted={self.accepted}>"

    def read(self, deltas: Iterable[Delta], out: MutableSequence[Step]) -> None:
        """Append the steps that these events complete."""
        for delta in deltas:
            if delta.exact:
                self.exact(delta.exact, out)
            if delta.tokens > self._tokens:
                self.grow(delta.tokens, out)
            if delta.finish:
                self.close(out)

    def exact(self, series: tuple[int, ...], out: MutableSequence[Step]) -> None:
        """The probe's own series; growth says nothing new from here on, and no step is told twice.

        A count beyond the depth is no count: it is taken for a full step, here and in the sum.
        """
        if self.kind is StepKind.UPPER:
            self._covered = self._tokens - self._first - self._held
            self.steps = self.accepted = 0
        self.kind, self._held = StepKind.EXACT, 0
        most = self._depth if self._depth > 0 else MAX_DRAFTS
        for told in series:
            accepted = min(max(told, 0), most)
            self.accepted += accepted
            if self._covered > 0:
                self._covered -= accepted + 1
            else:
                out.append(self._ladder[accepted])
        self.steps += len(series)

    def grow(self, tokens: int, out: MutableSequence[Step]) -> None:
        """The engine's count has risen to this: the step held until now was not the last."""
        growth = tokens - self._tokens
        self._tokens = tokens
        if growth == tokens or self.kind is StepKind.EXACT:  # the hand-off token is no step
            self._first = self._first or tokens
            return
        if self._held:
            ladder, accepted = self._ladder, self._held - 1
            out.append(ladder[accepted] if accepted < len(ladder) else Step(self._depth, accepted))
        else:
            self.kind = StepKind.UPPER
        self._held = growth
        if growth <= self._depth + 1 or self._depth < 0:
            self.steps += 1
            self.accepted += growth - 1
        else:
            steps = -(-growth // (self._depth + 1))
            self.steps += steps
            self.accepted += growth - steps

    def rise(self, counts: Sequence[int], out: MutableSequence[Step]) -> None:
        """`grow`, count by count, at half its cost."""
        at = 0
        while at < len(counts) and (not self._held or self.kind is StepKind.EXACT):
            if counts[at] > self._tokens:
                self.grow(counts[at], out)
            at += 1
        ladder, depth, held, tokens = self._ladder, self._depth, self._held, self._tokens
        known, most = len(ladder), depth + 1 if depth > 0 else MAX_TOKENS
        for count in counts[at:] if at else counts:
            growth = count - tokens
            if growth <= 0:
                continue
            tokens = count
            out.append(ladder[held - 1] if held <= known else Step(depth, held - 1))
            held = growth
            steps = 1 if growth <= most else -(-growth // most)
            self.steps += steps
            self.accepted += growth - steps
        self._held, self._tokens = held, tokens

    def close(self, out: MutableSequence[Step]) -> None:
        """The choice has ended: the held step is the last, and censored; nothing, if it may be several."""
        accepted, self._held = self._held - 1, 0
        if accepted > 0 and (accepted <= self._depth or self._depth < 0):
            out.append(Step(accepted, accepted))


@lru_cache(MAX_DRAFTS)
def ladder(depth: int) -> tuple[Step, ...]:
    """The steps of this depth by how many were accepted: single ones first, then several merged ones."""
    count = MERGED * (depth + 1) if depth > 0 else MAX_DRAFTS + 1
    return tuple(Step(depth, accepted) for accepted in range(count))
