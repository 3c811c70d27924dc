"""The public rule (z.ai, "Scaling Pain", 2026), kept as the baseline to beat: `rules/sets/zai.yaml`.

    accept length < 1.4 with more than 128 tokens    low acceptance: KV mismatch
    accept rate   > 0.96                             repetition: degraded attention

Both are means over the whole request so far, which is why a collapse at token 2,000 shows 3,095 steps later,
and the second can never fire for tree drafts (reference: detection.md 1). It is telemetry, so that it
suspects and never acts here; the original aborts. Cost: 0.1 us a step.
"""

from dataclasses import dataclass
from typing import ClassVar

from service.core.events import UNKNOWN, Channel, Finding, Kind, Look, RequestFacts, WorkerFacts


class ZaiState:
    """Totals of one choice."""

    __slots__ = ("accepted", "drafted", "said", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.accepted = 0
        self.drafted = 0
        self.said = False


@dataclass(frozen=True, slots=True)
class Zai:
    """Parameters as they stand in the rule set under `zai`."""

    length_min: float
    rate_max: float
    tokens_min: int
    alarm_log10: float

    name: ClassVar[str] = "zai"
    channel: ClassVar[Channel] = Channel.TELEMETRY

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> ZaiState:
        return ZaiState()

    def look(self, state: ZaiState, look: Look) -> Finding | None:
        if not look.steps or state.said:
            return None
        for step in look.steps:
            state.steps += 1
            state.accepted += step.accepted
            state.drafted += max(step.drafted, 0)
        tokens = state.accepted + state.steps
        if tokens <= self.tokens_min:
            return None
        low = tokens < self.length_min * state.steps
        if not low and state.accepted <= self.rate_max * state.drafted:
            return None
        state.said = True
        side = "length" if low else "rate"
        return Finding(
            self.name, self.channel, Kind.LOW_ACCEPTANCE, self.alarm_log10, look.tokens, UNKNOWN, side
        )
