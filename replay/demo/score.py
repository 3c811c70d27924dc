"""The score: reckonings counted into the JSON that `specguard demo --json` prints, and the bar it is held to.

The first twelve keys are fixed by the design; what follows them may grow. `failed_loudly`, `recovered` and
`escaped` count corrupted requests only, so they add up; loud ends and wrong answers that no fault explains
have keys of their own (`failed_clean`, `wrong_clean`). Of the escapes, `escaped_marked` had a verdict and
were delivered for want of means, and `escaped_hit_again` had been taken back and were struck once more.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from replay.demo.client import End
from replay.demo.truth import LOUD, Fate, Reckoning
from replay.lab.faults import KINDS
from service.core.events import Policy

LOUD_REQUESTS_MIN = 40
REQUESTS_MIN = 300
CAUGHT_SHARE_MIN = 0.95
SECONDS_MAX = 150.0
CLEAN_PER_FALSE_ALARM = 500


class FaultRow(msgspec.Struct, frozen=True):
    """One kind of fault, counted in requests."""

    hit: int = 0
    answer_changed: int = 0
    detected: int = 0
    recovered: int = 0
    failed_loudly: int = 0
    escaped: int = 0
    escaped_strict: int = 0


class Score(msgspec.Struct, frozen=True):
    """Everything that is counted of a run, in the order of the JSON."""

    requests: int
    corrupted_upstream: int
    detected: int
    recovered: int
    failed_loudly: int
    escaped: int
    escaped_strict: int
    delivered_bad_tokens: int
    false_alarms: int
    cases_saved: int
    by_fault: dict[str, FaultRow]
    seconds: float
    strict_requests: int
    clean_requests: int
    second_opinions: int
    second_opinions_clean: int
    answer_check_clean: float | None
    failed_clean: int
    wrong_clean: int
    own_errors: int
    escaped_marked: int
    escaped_hit_again: int
    retries: int
    retries_same_worker: int
    gave_up: int
    without_truth: int
    loud_corrupted: int
    loud_caught: int
    loud_escaped: int
    nan_escaped_strict: int
    traffic_seconds: float
    cpu_seconds: dict[str, float]
    bar_missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run cost."""

    seconds: float
    traffic_seconds: float
    cpu_seconds: dict[str, float]


def tally(reckonings: Sequence[Reckoning], cases_saved: int, spent: Spent) -> Score:
    """Count."""
    fates = Counter(one.fate for one in reckonings)
    clean = [one for one in reckonings if not one.faults]
    ended = [one for one in clean if one.end is End.CLEAN]
    loud = [one for one in reckonings if one.changing_faults & LOUD]
    return Score(
        requests=len(reckonings),
        corrupted_upstream=_count(reckonings, lambda one: one.corrupted),
        detected=_count(reckonings, lambda one: bool(one.detected_faults)),
        recovered=fates[Fate.RECOVERED],
        failed_loudly=fates[Fate.FAILED_LOUDLY],
        escaped=fates[Fate.ESCAPED],
        escaped_strict=_count(reckonings, _escaped_strict),
        delivered_bad_tokens=sum(one.bad_tokens for one in reckonings),
        false_alarms=_count(clean, _has_verdict),
        cases_saved=cases_saved,
        by_fault={kind: _row(kind, reckonings) for kind in _kinds(reckonings)},
        seconds=round(spent.seconds, 1),
        strict_requests=_count(reckonings, lambda one: one.policy is Policy.STRICT),
        clean_requests=len(clean),
        second_opinions=_count(reckonings, _has_second_opinion),
        second_opinions_clean=_count(clean, _has_second_opinion),
        answer_check_clean=round(_count(ended, lambda one: one.right) / len(ended), 4) if ended else None,
        failed_clean=fates[Fate.FAILED],
        wrong_clean=fates[Fate.WRONG],
        own_errors=fates[Fate.OWN_ERROR],
        escaped_marked=_count(reckonings, lambda one: one.fate is Fate.ESCAPED and one.answer.seen.verdict),
        escaped_hit_again=_count(reckonings, lambda one: one.fate is Fate.ESCAPED and len(one.attempts) > 1),
        retries=sum(len(one.attempts) - 1 for one in reckonings),
        retries_same_worker=sum(map(_returns, reckonings)),
        gave_up=_count(reckonings, lambda one: one.end is End.GAVE_UP),
        without_truth=_count(reckonings, lambda one: one.end is End.CLEAN and not one.judged),
        loud_corrupted=len(loud),
        loud_caught=_count(loud, lambda one: one.fate in {Fate.RECOVERED, Fate.FAILED_LOUDLY}),
        loud_escaped=_count(loud, lambda one: one.fate is Fate.ESCAPED and one.answer.fault in LOUD),
        nan_escaped_strict=_count(reckonings, lambda one: _escaped_strict(one) and one.answer.fault == "nan"),
        traffic_seconds=round(spent.traffic_seconds, 1),
        cpu_seconds=spent.cpu_seconds,
    )


def missed(score: Score, fault_kinds: Iterable[str]) -> tuple[str, ...]:
    """Name what the run does not reach of the bar; loud faults count only where both kinds were planned."""
    planned = set(fault_kinds) >= LOUD
    alarms_max = max(1, score.clean_requests // CLEAN_PER_FALSE_ALARM)
    bars = {
        f"under {SECONDS_MAX:.0f} s": score.seconds < SECONDS_MAX,
        f"at least {REQUESTS_MIN} requests": score.requests >= REQUESTS_MIN,
        f"at most 1 false alarm in {CLEAN_PER_FALSE_ALARM} clean requests": score.false_alarms <= alarms_max,
        "no nan escape on strict": score.nan_escaped_strict == 0,
        f"at least {LOUD_REQUESTS_MIN} requests corrupted by loud faults": not planned
        or score.loud_corrupted >= LOUD_REQUESTS_MIN,
        f"at least {CAUGHT_SHARE_MIN:.0%} of those recovered or failed loudly": score.loud_caught
        >= CAUGHT_SHARE_MIN * score.loud_corrupted,
        "the truth is known of every answer": score.without_truth == 0,
    }
    return tuple(name for name, reached in bars.items() if not reached)


def _row(kind: str, reckonings: Sequence[Reckoning]) -> FaultRow:
    hit = [one for one in reckonings if kind in one.faults]
    changed = [one for one in hit if kind in one.changing_faults]
    escaped = [one for one in changed if one.fate is Fate.ESCAPED and one.answer.fault == kind]
    return FaultRow(
        hit=len(hit),
        answer_changed=len(changed),
        detected=_count(hit, lambda one: kind in one.detected_faults),
        recovered=_count(changed, lambda one: one.fate is Fate.RECOVERED),
        failed_loudly=_count(changed, lambda one: one.fate is Fate.FAILED_LOUDLY),
        escaped=len(escaped),
        escaped_strict=_count(escaped, _escaped_strict),
    )


def _kinds(reckonings: Iterable[Reckoning]) -> list[str]:
    """Faults that hit somebody: the planned kinds in the lab's order, then whatever else its ledger names."""
    found = {kind for one in reckonings for kind in one.faults}
    return [*(kind for kind in KINDS if kind in found), *sorted(found.difference(KINDS))]


def _escaped_strict(one: Reckoning) -> bool:
    return one.fate is Fate.ESCAPED and one.policy is Policy.STRICT


def _returns(one: Reckoning) -> int:
    """Attempts that landed on the worker of the attempt before."""
    workers = [attempt.worker for attempt in one.attempts]
    return sum(before == after != "" for before, after in pairwise(workers))


def _has_verdict(one: Reckoning) -> bool:
    return any(attempt.seen.verdict for attempt in one.attempts)


def _has_second_opinion(one: Reckoning) -> bool:
    return any(attempt.seen.second_opinion for attempt in one.attempts)


def _count(reckonings: Iterable[Reckoning], holds: Callable[[Reckoning], bool]) -> int:
    return sum(map(holds, reckonings))
