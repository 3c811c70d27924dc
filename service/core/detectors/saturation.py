"""Saturation: nearly every draft is accepted in full, as in a loop. A multiplier for loops and nothing else.

    R[t] = (R[t-1] + w[t]) LR(x),  x = every draft was accepted,  w[t] = 1 / sqrt(t) - 1 / sqrt(t + 1)
    LR(1) = full_corrupt / full_healthy,  LR(0) = (1 - full_corrupt) / (1 - full_healthy)

An e-process for streams whose steps are accepted in full with at most `full_healthy`, whatever came before.
That is no more than a fair bet: agents copy code, and a request may ask for repetition, so that this alone
never suspects (reference: 9.6 % of clean n-gram windows are saturated); fusion lets it multiply a finding of
repetition and nothing else. Merged events would show full steps that nobody took: only exact steps and
single ones count, and only where the depth is known. Cost: 0.15 us a step.
"""

from dataclasses import dataclass
from math import log10
from typing import ClassVar, Final

from service.core.events import Channel, Finding, Kind, Look, RequestFacts, WorkerFacts

CEILING: Final = 1e100


class SaturationState:
    """The e-process of one choice."""

    __slots__ = ("peak", "r", "reported", "t")

    def __init__(self) -> None:
        self.r = 0.0
        self.t = 0.0  # steps
        self.peak = 1.0
        self.reported = 0.0  # decades


@dataclass(frozen=True, slots=True)
class Saturation:
    """Parameters as they stand in the rule set under `saturation`."""

    full_healthy: float
    full_corrupt: float
    most: float  # decades
    report_step: float  # decades

    name: ClassVar[str] = "saturation"
    channel: ClassVar[Channel] = Channel.TELEMETRY

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> SaturationState:
        return SaturationState()

    def look(self, state: SaturationState, look: Look) -> Finding | None:
        if not look.steps:
            return None
        up, down = self.full_corrupt / self.full_healthy, (1 - self.full_corrupt) / (1 - self.full_healthy)
        r, t, peak = state.r, state.t, state.peak
        for step in look.steps:
            if step.drafted <= 0 or step.accepted > step.drafted:
                continue
            t += 1.0
            r = (r + t**-0.5 - (t + 1.0) ** -0.5) * (up if step.accepted == step.drafted else down)
            if r > peak:
                peak = r = min(r, CEILING)
        state.r, state.t = r, t
        if peak <= state.peak:
            return None
        state.peak = peak
        found = min(log10(peak) // self.report_step * self.report_step, self.most)
        if found <= state.reported:
            return None
        state.reported = found
        return Finding(self.name, self.channel, Kind.REPETITION, found, look.tokens)
