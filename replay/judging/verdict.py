"""The verdict on a run: whether it is the load.

    SCHEDULE NOT KEPT    this client was late: the levels were not what the plan says, nothing is concluded
    BACKEND FAILING      a level failed more than `FAILING_SHARE` of its requests: what is left is no sample
    LOAD-DEPENDENT       p <= alpha, p the larger of two: the exact conditional test on incidents, and the
                         exact permutation of blocks on events. The first falls for clusters that the window
                         did not see, the second only for clusters that pass from block to block
    NOT LOAD-DEPENDENT   not so, and the 95 % upper bound of high minus low lies below the margin; the counts
                         are shrunk by the design effect first
    UNDECIDED            neither, and how many more requests an arm would likely decide

A run that is not over, or was stopped, may be looked at as often as one likes, and p-values may not: it is
LOAD-DEPENDENT only by its e-value, else undecided. One that was stopped for its errors has a failing backend.

Where no arm has an event, `reproduced` is false: the bound still holds, but what was reported was not seen.
"Not significant" alone is never told as "not the load".
"""

from collections.abc import Sequence
from enum import StrEnum
from math import ceil, isfinite
from typing import Final

import msgspec

from replay.judging.levels import Level, Round
from replay.plan import Contrast
from replay.stats.clusters import design_effect, permutation
from replay.stats.evalue import SHOWN
from replay.stats.exact import PER, Rate
from replay.stats.power import requests_needed
from replay.stats.ratio import contrast, difference_upper

FAILING_SHARE = 0.25
"""Timeouts are part of what load does (the race under study makes one request in ten time out); beyond one in
four the answers left are too odd a choice."""


ERRORS: Final = "errors"
"""As a results file says it."""


class Outcome(StrEnum):
    """What may be said."""

    LOAD_DEPENDENT = "LOAD-DEPENDENT"
    NOT_LOAD_DEPENDENT = "NOT LOAD-DEPENDENT"
    UNDECIDED = "UNDECIDED"
    SCHEDULE_NOT_KEPT = "SCHEDULE NOT KEPT"
    BACKEND_FAILING = "BACKEND FAILING"


class State(msgspec.Struct, frozen=True):
    """How the run went, beside what it found."""

    late: str = ""  # why the schedule was not kept
    stopped: str = ""  # what ended the run before its time
    over: bool = True  # all that was planned was sent, or nearly
    e_value: float = 1.0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the plan's one question, and what it rests on."""

    verdict: Outcome
    reproduced: bool
    p: float
    p_incidents: float
    p_blocks: float
    p_events: float  # as if events were independent: told, not used
    mid_p: float
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    upper_per_10k: float | None  # of high minus low
    margin_per_10k: float
    design_effect: float
    more_requests: int | None = None  # an arm
    why: str = ""


AS_PLANNED: Final = State()


def decide(
    asked: Contrast,
    low: Level,
    high: Level,
    rounds: Sequence[Round],
    sizes: Sequence[int],
    state: State = AS_PLANNED,
) -> Verdict:
    """Weigh one contrast; `sizes` are those of the incidents of both arms."""
    low_rate, high_rate = low.rate, high.rate
    if low_rate is None or high_rate is None:
        empty = low.arm if low_rate is None else high.arm
        return _void(asked, state, low, high, f"{empty} has no whole answer")
    evidence = weigh(asked, low, high, rounds, sizes)
    outcome, why = _broken(state, low, high) or _outcome(evidence, asked, state)
    if outcome is Outcome.LOAD_DEPENDENT and low.load == high.load:
        why += "; both arms have one load: it is the knob that they differ in"
    more = _more(asked, low_rate, high_rate, evidence) if outcome is Outcome.UNDECIDED else None
    return msgspec.structs.replace(evidence, verdict=outcome, why=why, more_requests=more)


def weigh(asked: Contrast, low: Level, high: Level, rounds: Sequence[Round], sizes: Sequence[int]) -> Verdict:
    """The numbers, not yet the word."""
    rounds = [one for one in rounds if one.has(low.arm, high.arm)]
    low_rate, high_rate = Rate(low.events, low.trials), Rate(high.events, high.trials)
    plain = contrast(high_rate, low_rate)
    counted = contrast(Rate(high.incidents, high.trials), Rate(low.incidents, low.trials))
    blocks = permutation([_pair(one, high.arm, low.arm) for one in rounds]) if rounds else 1.0
    effect = design_effect(sizes, [one.counts[high.arm][0] for one in rounds])
    bound = difference_upper(high_rate.shrunk(effect), low_rate.shrunk(effect))
    return Verdict(
        verdict=Outcome.UNDECIDED,
        reproduced=bool(high.events or low.events),
        p=max(counted.p, blocks),
        p_incidents=counted.p,
        p_blocks=blocks,
        p_events=plain.p,
        mid_p=counted.mid_p,
        ratio=_finite(counted.ratio),
        ratio_low=_finite(counted.ratio_low),
        ratio_high=_finite(counted.ratio_high),
        upper_per_10k=bound * PER,
        margin_per_10k=asked.margin_per_10k,
        design_effect=effect,
    )


def _broken(state: State, low: Level, high: Level) -> tuple[Outcome, str] | None:
    """What makes any number worthless."""
    failing = next((one for one in (low, high) if one.failing_share > FAILING_SHARE), None)
    if state.stopped == ERRORS:
        return Outcome.BACKEND_FAILING, "the run was stopped for its errors"
    if failing is not None:
        return Outcome.BACKEND_FAILING, f"{failing.failing_share:.0%} of {failing.arm} failed"
    return (Outcome.SCHEDULE_NOT_KEPT, state.late) if state.late else None


def _outcome(found: Verdict, asked: Contrast, state: State) -> tuple[Outcome, str]:
    bound = found.upper_per_10k if found.upper_per_10k is not None else asked.margin_per_10k
    open_still = f"a difference of {bound:.2g} per 10,000 is not excluded"
    if not state.over:
        shown = state.e_value >= SHOWN
        so_far = f"the run is not over ({state.stopped or 'so far'}); e-value {state.e_value:.3g}"
        return (Outcome.LOAD_DEPENDENT if shown else Outcome.UNDECIDED), so_far
    if found.p <= asked.alpha:
        return Outcome.LOAD_DEPENDENT, f"p = {found.p:.2g}"
    if bound < asked.margin_per_10k:
        below = f"{asked.high} minus {asked.low} is below {bound:.2g} per 10,000 at 95 %"
        return Outcome.NOT_LOAD_DEPENDENT, f"{below}, margin {asked.margin_per_10k:g}"
    return Outcome.UNDECIDED, f"p = {found.p:.2g}, and {open_still}"


def _void(asked: Contrast, state: State, low: Level, high: Level, why: str) -> Verdict:
    outcome, because = _broken(state, low, high) or (Outcome.UNDECIDED, why)
    return Verdict(
        verdict=outcome,
        reproduced=bool(low.events or high.events),
        p=1.0,
        p_incidents=1.0,
        p_blocks=1.0,
        p_events=1.0,
        mid_p=1.0,
        ratio=None,
        ratio_low=None,
        ratio_high=None,
        upper_per_10k=None,
        margin_per_10k=asked.margin_per_10k,
        design_effect=1.0,
        why=because,
    )


def _more(asked: Contrast, low: Rate, high: Rate, found: Verdict) -> int:
    """Requests an arm that are still missing if the rates are as they look, at the planned power."""
    aim = min(1.0, max(high.share, low.share + asked.margin_per_10k / PER))
    have = min(low.trials, high.trials)
    if low.share >= aim:  # every answer of the low arm is bad: nothing can be worse
        return ceil(have / 2)
    needed = requests_needed(low.share, aim, wanted=asked.power, alpha=asked.alpha)
    return max(ceil(needed * found.design_effect - have), ceil(have / 2))


def _pair(one: Round, high: str, low: str) -> tuple[Rate, Rate]:
    return Rate(*one.counts[high]), Rate(*one.counts[low])


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if isfinite(value) else None
