"""Acceptance collapse: the target refuses nearly every draft, as when its KV is not what the draft saw.

A Shiryaev-Roberts e-process with a prior over the onset (Shin, Ramdas and Rinaldo, "E-detectors", NEJSDS
2023), that is a sum over all onsets of prior times likelihood ratio, kept in one number:

    R[s] = (R[s-1] + W(n[s]) - W(n[s-1])) F(A[s])         n = tokens so far, A = accepted drafts of step s
    W(n) = n / 2L + (1 - 1 / sqrt(n + 1)) / 2              L = max_tokens; without it 1 - 1 / sqrt(n + 1)
    F(A) = prod(q[d] / a[d], d <= A) (1 - q[A+1]) / (1 - a[A+1])     the last only where a draft was refused

a[d] is the anchor: a healthy draft at depth d is accepted with at least this probability once those before
it were, whatever came before; q the same under corruption. Then E[F] <= 1, and F is made non-increasing.

P(max R >= 1/alpha) <= alpha for every such stream, of any length, and HOWEVER events merge steps. Proof: F
falls and a step's own tokens rise with A, so E[own prior x F] <= E[own prior], and R + (prior not yet spent)
is a supermartingale that starts at 1 (Ville). An event of several steps brings all their prior at once and a
factor that `Table` keeps at or below the product over every suffix of every split of its growth, so R after
it is at most what the single steps would have given. The limit: events must never split a step.

Where k is unknown or changes, a refusal is seen only where nothing was accepted. A tree draft is a chain
whose depth is its number of draft rounds. What is reported is the running maximum, which is what the
inequality bounds; as a summand of a fused e-value it is too large by about ln(max) at most, which the factor
that fusion demands from another channel covers.

The anchor is the worker's learned one, else a safe guess. What the guess costs: from acceptance .7 to .1 at
k = 3, 18 steps (onset at 0) to 30 with a = .7, but 75 to 130 with .35: a short answer ends first. What it
buys: healthy requests whose mean acceptance varies keep the promised false-alarm rate. Growth of one token a
step is evidence only where a model drafts or something was learned; n-gram drafts come and go with the text.
An anchor that was learned and is too low, and a draft that fails everybody, make it no data. This channel
suspects; it never acts. Cost: 0.25 us a step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log, log10
from typing import ClassVar, Final

from service.core.acceptance import MAX_DRAFTS, MERGED
from service.core.events import Channel, Drafter, Finding, Kind, Look, RequestFacts, WorkerFacts

CEILING: Final = 1e280
"""Where R stops growing: nothing asks for more evidence, and the next factor must not overflow."""

ANCHOR_MAX: Final = 0.98
"""Anchors closer to 1 would make one refusal prove everything."""

NO_ROW: Final[tuple[float, ...]] = (1.0,) * (MAX_DRAFTS + 1)
"""Nothing was drafted: nothing can be said."""

DEEPEST: Final = 16
"""Depths told apart; a deeper draft counts as one of this depth accepted in full: the weaker claim."""


@dataclass(frozen=True, slots=True)
class Law:
    """Healthy against corrupt acceptance: what makes the factors."""

    anchor: tuple[float, ...]  # by depth; the last holds for all depths beyond
    corrupt_rate: float  # q, at most; a third of the anchor where that is less
    clip: float  # nats that one step may say

    def accept(self, depth: int) -> float:
        """ln(q / a): the draft at this depth, from 1, was accepted."""
        anchor = self._anchor(depth)
        return log(min(self.corrupt_rate, anchor / 3) / anchor)

    def refuse(self, depth: int) -> float:
        """ln((1 - q) / (1 - a)): it was refused."""
        anchor = self._anchor(depth)
        return log((1 - min(self.corrupt_rate, anchor / 3)) / (1 - anchor))

    def _anchor(self, depth: int) -> float:
        return self.anchor[min(depth, len(self.anchor)) - 1]


class AcceptanceState:
    """The e-process of one choice."""

    __slots__ = ("depth", "horizon", "law", "onset", "peak", "r", "reported", "row", "spent", "tokens")

    def __init__(self, law: Law | None, horizon: float) -> None:
        self.law = law  # None: no data
        self.horizon = horizon  # tokens; 0: none known
        self.depth = 0  # of the newest step ...
        self.row = NO_ROW  # ... and the factors of such steps
        self.r = 0.0
        self.tokens = 0.0  # after the hand-off token
        self.spent = 1.0  # 1 / sqrt(tokens + 1)
        self.peak = 1.0  # max of R, at least 1
        self.reported = 0.0  # decades
        self.onset = 0.0  # tokens when R was last no more than the newest prior


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Parameters as they stand in the rule set under `acceptance`."""

    safe_anchor: float  # a where nothing was learned
    floor_min: float  # a learned anchor below this makes nobody's growth evidence, at it a model's only
    corrupt_rate: float
    clip: float
    report_step: float  # decades: evidence is given out in steps of this size

    name: ClassVar[str] = "acceptance"
    channel: ClassVar[Channel] = Channel.TELEMETRY

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> AcceptanceState:
        anchor = self._anchor(facts, worker)
        law = Law(anchor, self.corrupt_rate, self.clip) if anchor else None
        return AcceptanceState(law, float(max(facts.max_tokens, 0)))

    def look(self, state: AcceptanceState, look: Look) -> Finding | None:
        if not look.steps or state.law is None or not advance(state, state.law, look):
            return None
        found = log10(state.peak) // self.report_step * self.report_step
        if found <= state.reported:
            return None
        state.reported = found
        return Finding(self.name, self.channel, Kind.LOW_ACCEPTANCE, found, look.tokens, int(state.onset) + 1)

    def _anchor(self, facts: RequestFacts, worker: WorkerFacts) -> tuple[float, ...]:
        """By depth; empty: nothing is known that would make growth evidence."""
        if worker.draft_fault:
            return ()
        if known := learned(facts, worker):
            model = worker.drafter is Drafter.MODEL
            useful = known[0] > self.floor_min or (model and known[0] == self.floor_min)
            return tuple(min(anchor, ANCHOR_MAX) for anchor in known) if useful else ()
        return (self.safe_anchor,) if worker.drafter is Drafter.MODEL else ()


def learned(facts: RequestFacts, worker: WorkerFacts) -> tuple[float, ...]:
    """The anchors, by depth, that a calibration has for such a request; empty where none covers it."""
    if worker.anchors is None:
        return ()
    return worker.anchors.of(facts.model, facts.temperature, grammar=facts.wants_json)


def advance(state: AcceptanceState, law: Law, look: Look) -> bool:
    """Add these steps; whether the evidence has reached a new maximum."""
    r, n, spent, peak = state.r, state.tokens, state.spent, state.peak
    half, horizon = 1.0, state.horizon
    each = 0.0
    if horizon:
        half, each = 0.5, 0.5 / horizon
    depth, row = state.depth, state.row
    for step in look.steps:
        if step.drafted != depth:
            state.depth = depth = step.drafted
            state.row = row = factors(law, depth)
        accepted = step.accepted
        before = n
        n += accepted + 1.0
        left = (n + 1.0) ** -0.5
        prior = half * (spent - left)
        if n <= horizon:
            prior += each * (accepted + 1.0)
        spent = left
        if r <= prior:
            state.onset = before
        r = (r + prior) * row[accepted] if accepted < len(row) else 0.0
        if r > peak:
            peak = r = min(r, CEILING)
    risen = peak > state.peak
    state.r, state.tokens, state.spent, state.peak = r, n, spent, peak
    return risen


@lru_cache(4096)
def factors(law: Law, depth: int) -> tuple[float, ...]:
    """F by accepted drafts for steps of this depth (UNKNOWN: not told), merged ones included; 0 beyond."""
    if depth == 0:
        return NO_ROW
    single = _single(law, depth)
    count = MAX_DRAFTS + 1 if depth < 0 else MERGED * (depth + 1)
    return tuple(map(exp, _merged(single, count)))


def _single(law: Law, depth: int) -> list[float]:
    """Log likelihood ratios of one step, clipped above, by accepted drafts."""
    if depth < 0:
        out = [law.refuse(1)]
        for accepted in range(1, DEEPEST + 1):
            out.append((out[-1] if accepted > 1 else 0.0) + law.accept(accepted))
        return [min(llr, law.clip) for llr in out]
    passed, out = 0.0, []
    for at in range(1, min(depth, DEEPEST) + 1):
        out.append(passed + law.refuse(at))
        passed += law.accept(at)
    out += [passed] * (depth + 1 - len(out))
    return [min(llr, law.clip) for llr in out]


def _merged(single: Sequence[float], count: int) -> list[float]:
    """For growth 1, 2, ... the least that any suffix of any split into single steps gives.

    Non-increasing, and no more than `single` for a growth that one step can have. 3 ms, once a table.
    """
    least: list[float] = [0.0]  # over splits of exactly this growth
    bound: list[float] = []
    for growth in range(1, count + 1):
        reach = single[: min(DEEPEST + 1, growth)]
        least.append(min(llr + least[growth - 1 - accepted] for accepted, llr in enumerate(reach)))
        bound.append(min(least[growth], bound[-1] if bound else least[growth]))
    return bound
