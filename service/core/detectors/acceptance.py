"""Acceptance collapse: the target refuses nearly every draft, as when its KV is not what the draft saw.

A Shiryaev-Roberts e-process with a summable prior over the onset (Shin, Ramdas and Rinaldo, "E-detectors",
NEJSDS 2023):

    R[t] = (R[t-1] + w[t]) exp(LLR[t]),  w[t] = 1 / (t (t + 1)),  sum w = 1
    LLR(A of k) = A ln(q / a0) + [A < k] ln((1 - q) / (1 - a0)),  clipped

R is kept as it is, between 0 and 1e280: what underflows is far below the prior that every step adds.

a0 is the anchor: a healthy draft token is accepted with at least this probability, whatever came before;
q the acceptance under corruption. Then P(max R >= 1/alpha) <= alpha (Ville) for any stream length. What is
reported is the running maximum: that is what the inequality bounds; as a summand of a fused e-value it is
too large by at most about ln(max), which the factor that fusion demands from another channel covers.

The anchor is the worker's learned 0.1 % quantile (`accept_floor`), else a safe guess. What the guess costs:
from acceptance .7 to .1 at k = 3, 17 steps with a0 = .7, but 76 (onset at 0) to 133 (onset at 1,000) with
.35: a short answer ends first. What it buys: healthy requests whose mean acceptance varies keep the promised
false-alarm rate. Growth of one token a step is evidence only where a model drafts or the learned quantile is
high; n-gram drafts come and go with the text. This channel suspects; it never acts. Cost: 0.3 us a step.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, isnan, log, log10
from typing import ClassVar, Final

from service.core.events import UNKNOWN, Channel, Drafter, Finding, Kind, Look, RequestFacts, WorkerFacts

CEILING: Final = 1e280
"""Where R stops growing: nothing asks for more evidence, and the next factor must not overflow."""


class AcceptanceState:
    """The e-process of one choice."""

    __slots__ = ("anchor", "cusum", "onset", "peak", "r", "reported", "t", "tokens")

    def __init__(self, anchor: float) -> None:
        self.anchor = anchor  # 0: no data
        self.r = 0.0
        self.t = 0.0  # steps
        self.peak = 1.0  # max of R, at least 1
        self.reported = 0.0  # decades
        self.cusum = 1.0  # product of factors since it was last below 1: only to name the onset
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
        self._advance(state, look)
        found = log10(state.peak) // self.report_step * self.report_step
        if found <= state.reported:
            return None
        state.reported = found
        return Finding(self.name, self.channel, Kind.LOW_ACCEPTANCE, found, look.tokens, state.onset)

    def _advance(self, state: AcceptanceState, look: Look) -> None:
        r, t, cusum, peak, anchor = state.r, state.t, state.cusum, state.peak, state.anchor
        token = float(state.tokens)
        each = (look.tokens - token) / len(look.steps) if look.tokens > token else 1.0
        for step in look.steps:
            factor = likelihood_ratio(anchor, self.corrupt_rate, self.clip, step.drafted, step.accepted)
            t += 1.0
            r = min((r + 1.0 / (t * (t + 1.0))) * factor, CEILING)
            peak = max(peak, r)
            if cusum <= 1.0:
                cusum, state.onset = 1.0, int(token)
            cusum = min(cusum * factor, CEILING)
            token += each
        state.r, state.t, state.cusum, state.peak = r, t, cusum, peak
        state.tokens = max(look.tokens, state.tokens)


@lru_cache(4096)
def likelihood_ratio(anchor: float, corrupt_rate: float, clip: float, drafted: int, accepted: int) -> float:
    """exp(LLR) of one step, a censored geometric: the chain of drafts stops at the first refusal."""
    q = min(corrupt_rate, anchor / 3)
    llr = accepted * log(q / anchor)
    if accepted < drafted:
        llr += log((1 - q) / (1 - anchor))
    return exp(max(-clip, min(clip, llr)))
