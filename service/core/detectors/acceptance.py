"""Acceptance collapse: the target refuses nearly every draft, as when its KV is not what the draft saw.

A Shiryaev-Roberts e-process with a summable prior over the onset (`reference`: Shin, Ramdas and Rinaldo,
"E-detectors", NEJSDS 2023), in the log domain:

    R[t] = (R[t-1] + w[t]) exp(LLR[t]),  w[t] = 1 / (t (t + 1)),  sum w = 1
    LLR(A of k) = A ln(q / a0) + [A < k] ln((1 - q) / (1 - a0)),  clipped

a0 is the anchor: a healthy draft token is accepted with at least this probability, whatever came before;
q the acceptance under corruption. Then P(max R >= 1/alpha) <= alpha (Ville) for any stream length. What is
reported is the running maximum: that is what the inequality bounds; as a summand of a fused e-value it is
too large by at most about ln(max), which the factor that fusion demands from another channel covers.

The anchor is the worker's learned 0.1 % quantile (`accept_floor`), else a safe guess. What the guess costs:
from acceptance .7 to .1 at k = 3, 17 steps with a0 = .7, but 76 (onset at 0) to 133 (onset at 1,000) with
.35: a short answer ends first. What it buys: healthy requests whose mean acceptance varies keep the promised
false-alarm rate. Growth of one token a step is evidence only where a model drafts or the learned quantile is
high; n-gram drafts come and go with the text. This channel suspects; it never acts. Cost: 0.5 us a step.
"""

from dataclasses import dataclass
from math import exp, isnan, log, log1p
from typing import ClassVar

from service.core.events import (
    UNKNOWN,
    Channel,
    Drafter,
    Finding,
    Kind,
    Look,
    RequestFacts,
    Step,
    WorkerFacts,
)

LN10 = log(10.0)


class AcceptanceState:
    """The e-process of one choice."""

    __slots__ = ("anchor", "cusum", "log_r", "onset", "peak", "reported", "t", "tokens")

    def __init__(self, anchor: float) -> None:
        self.anchor = anchor  # 0: no data
        self.log_r = -1e9  # ln R
        self.t = 0  # steps
        self.peak = 0.0  # max of ln R, at least 0
        self.reported = 0.0
        self.cusum = 0.0  # only to name the onset
        self.onset = UNKNOWN
        self.tokens = 0  # at the last look


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Parameters as they stand in the rule set under `acceptance`."""

    safe_anchor: float  # a0 where nothing was learned
    floor_min: float  # a learned floor below this does not make other drafters' growth evidence
    corrupt_rate: float  # q, at most; a third of the anchor where that is less
    clip: float  # nats, either way
    report_step: float  # decades: evidence is given out in steps of this size

    name: ClassVar[str] = "acceptance"
    channel: ClassVar[Channel] = Channel.TELEMETRY

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> AcceptanceState:
        floor = worker.accept_floor
        if worker.drafter is Drafter.MODEL:
            return AcceptanceState(self.safe_anchor if isnan(floor) else floor)
        return AcceptanceState(floor if floor >= self.floor_min else 0.0)

    def look(self, state: AcceptanceState, look: Look) -> Finding | None:
        if not look.steps or state.anchor <= 0:
            return None
        before = state.tokens
        each = (look.tokens - before) / len(look.steps) if look.tokens > before else 1.0
        for index, step in enumerate(look.steps):
            self._advance(state, step, int(before + each * index))
        state.tokens = max(look.tokens, before)
        found = state.peak / LN10 // self.report_step * self.report_step
        if found <= state.reported:
            return None
        state.reported = found
        return Finding(self.name, self.channel, Kind.LOW_ACCEPTANCE, found, look.tokens, state.onset)

    def _advance(self, state: AcceptanceState, step: Step, token: int) -> None:
        state.t += 1
        llr = self._llr(state.anchor, step)
        prior = -log(state.t * (state.t + 1.0))
        high, low = (state.log_r, prior) if state.log_r > prior else (prior, state.log_r)
        state.log_r = high + log1p(exp(low - high)) + llr
        state.peak = max(state.peak, state.log_r)
        if state.cusum <= 0:
            state.onset = token
        state.cusum = max(state.cusum, 0.0) + llr

    def _llr(self, anchor: float, step: Step) -> float:
        q = min(self.corrupt_rate, anchor / 3)
        llr = step.accepted * log(q / anchor)
        if step.accepted < step.drafted:
            llr += log((1 - q) / (1 - anchor))
        return max(-self.clip, min(self.clip, llr))
