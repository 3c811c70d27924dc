"""What each level's answers add up to: events, incidents, rates with intervals, latencies, failures.

A trial is a sample whose answer came whole. Failures are counted beside them and never dropped from sight: a
level that answers less has fewer trials, and both numbers are told. Rates come by request and by million
tokens, as a level with shorter answers has fewer places where something can go wrong.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf

import msgspec

from replay.judging.observation import Observation
from replay.plan import RETURN, Arm, PlanHeader
from replay.results import CUT_OFF
from replay.stats.clusters import Event, incidents
from replay.stats.exact import Rate

MILLION = 1_000_000
NOBODYS = frozenset({"", "aborted", CUT_OFF})
"""Endings that the plan or this client made: neither trials nor failures."""


class Spread(msgspec.Struct, frozen=True):
    """Quantiles of one latency in seconds."""

    count: int
    p50: float
    p90: float
    p99: float
    max: float


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """One arm, or the return."""

    arm: str
    load: float
    sent: int
    trials: int
    events: int
    incidents: int
    per_10k: float | None
    low_per_10k: float | None
    high_per_10k: float | None
    per_million_tokens: float | None
    failures: dict[str, int]
    kinds: dict[str, int]
    ttft_s: Spread | None
    itl_s: Spread | None
    total_s: Spread | None
    accept_clean: list[float]  # accept lengths of good answers and of bad ones
    accept_bad: list[float]

    @property
    def rate(self) -> Rate | None:
        return Rate(self.events, self.trials) if self.trials else None

    @property
    def incident_rate(self) -> Rate | None:
        return Rate(self.incidents, self.trials) if self.trials else None

    @property
    def failing_share(self) -> float:
        """Of what was to be answered."""
        failed = sum(self.failures.values())
        return failed / (failed + self.trials) if failed else 0.0


class Round(msgspec.Struct, frozen=True):
    """Events and trials of each arm in one round."""

    number: int
    counts: dict[str, tuple[int, int]]

    def has(self, *arms: str) -> bool:
        """Whether these can be compared here."""
        return all(arm in self.counts for arm in arms)


def events_of(seen: Iterable[Observation], event: str) -> list[Event]:
    """Bad samples as events that may hang together."""
    return [
        Event(one.id, one.block, one.at_s, one.worker, one.session, one.group)
        for one in seen
        if one.judged and one.bad(event)
    ]


def level(arm: Arm, seen: Sequence[Observation], event: str, window_s: float) -> Level:
    """Add up the samples of one arm."""
    samples = [one for one in seen if one.role == "sample"]
    trials = [one for one in samples if one.judged and one.bad(event) is not None]
    bad = [one for one in trials if one.bad(event)]
    tokens = sum(one.tokens for one in trials)
    low, high = Rate(len(bad), len(trials)).interval_per_10k() if trials else (None, None)
    return Level(
        arm=arm.name,
        load=arm.load,
        sent=len(samples),
        trials=len(trials),
        events=len(bad),
        incidents=len(incidents(events_of(trials, event), window_s)),
        per_10k=Rate(len(bad), len(trials)).per_10k if trials else None,
        low_per_10k=low,
        high_per_10k=high,
        per_million_tokens=len(bad) / tokens * MILLION if tokens else None,
        failures=dict(Counter(one.failure for one in samples if one.failure not in NOBODYS)),
        kinds=dict(Counter(f"{one.kind}: {one.detector}" for one in trials if one.detector)),
        ttft_s=spread(one.ttft_s for one in samples),
        itl_s=spread(one.itl_s for one in samples),
        total_s=spread(one.total_s for one in samples),
        accept_clean=_accepts(one for one in trials if not one.bad(event)),
        accept_bad=_accepts(bad),
    )


def levels(header: PlanHeader, seen: Sequence[Observation], event: str, window_s: float) -> list[Level]:
    """The arms in the plan's order; the return is not among them."""
    return [
        level(arm, [one for one in seen if one.arm == arm.name and one.round != RETURN], event, window_s)
        for arm in header.arms
    ]


def failing(one: Observation) -> bool | None:
    """A failure as an event: of a sample that was to be answered."""
    return None if one.failure and one.failure in NOBODYS else bool(one.failure)


def rounds(seen: Sequence[Observation], event: str) -> list[Round]:
    """Events and trials round by round; an arm without a trial is missing in its round."""
    return rounds_of(seen, lambda one: one.bad(event) if one.judged else None)


def rounds_of(seen: Iterable[Observation], is_bad: Callable[[Observation], bool | None]) -> list[Round]:
    """As `rounds`, for any event; None is no trial."""
    counts: dict[int, dict[str, tuple[int, int]]] = {}
    for one in seen:
        bad = is_bad(one) if one.role == "sample" and one.round != RETURN else None
        if bad is None:
            continue
        of_round = counts.setdefault(one.round, {})
        events, trials = of_round.get(one.arm, (0, 0))
        of_round[one.arm] = (events + bad, trials + 1)
    return [Round(number, found) for number, found in sorted(counts.items())]


def spread(values: Iterable[float | None]) -> Spread | None:
    """Nearest-rank quantiles; None without a value."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    p50, p90, p99 = (quantile(ordered, share) for share in (0.5, 0.9, 0.99))
    return Spread(len(ordered), p50, p90, p99, ordered[-1])


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else inf


def _accepts(seen: Iterable[Observation]) -> list[float]:
    return [round(one.accept_length, 3) for one in seen if one.accept_length is not None]
