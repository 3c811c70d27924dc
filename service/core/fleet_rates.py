"""Who gives more corrupted answers than its peers: exact tests on counts of the last hour.

A generation is counted once in each dimension: worker, prefill worker, pair of both, cache tier its prefix
came from, model, route. A group of `a` bad of `n` is held against its peers, the other groups of the same
dimension and model:

    p = P(X >= a),  X hypergeometric (all bad generations dealt out at random)      Fisher's exact test
    Holm over all groups of all dimensions; suspect below ALPHA

Who is not known is its own group, named `unknown`: it is shown, never suspected, and no control for others.
Fewer than `BAD_MIN` bad generations are no evidence (p is 1), and no evidence is not health.

Bounds: `GROUPS_MAX` groups a bucket, what comes after is counted as `other`. Cost: 2 us a generation, and a
judgement of 500 groups with 50 bad generations 4 ms.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import exp, isnan, lgamma, nan
from typing import Final

import msgspec

from service.core.events import Attempt, Level

ALPHA: Final = 1e-4
"""Of all groups together, at one look; looks of the same hour see mostly the same counts."""
BUCKET_S: Final = 600.0
BUCKETS: Final = 6
GROUPS_MAX: Final = 512
BAD_MIN: Final = 3
"""Two bad answers of one worker are what any prompt can do by itself."""
UNKNOWN_GROUP: Final = "unknown"
OTHER_GROUP: Final = "other"

DIMENSIONS: Final = ("worker", "prefill", "pair", "cache", "model", "route")

Group = tuple[str, str, str]  # dimension, model, value


class Rate(msgspec.Struct, frozen=True):
    """One group against its peers."""

    dimension: str
    model: str  # "" for models and routes, whose peers are of every model
    value: str
    bad: int
    total: int
    peers_bad: int
    peers_total: int
    p: float  # adjusted; NaN without peers, or where the group is unknown
    suspect: bool


class _Bucket:
    __slots__ = ("bad", "number", "total")

    def __init__(self, number: int) -> None:
        self.number = number
        self.total: Counter[Group] = Counter()
        self.bad: Counter[Group] = Counter()


class Rates:
    """Counts by group, in buckets of ten minutes."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: list[_Bucket] = []

    def __repr__(self) -> str:
        return f"<Rates {len(self._buckets)} buckets>"

    def over(self, attempt: Attempt, model: str, route: str, now: float) -> None:
        """A generation is over."""
        bucket = self._bucket(now)
        bad = attempt.judgement.level is Level.CORRUPT
        for group in groups_of(attempt, model, route):
            known = group in bucket.total or len(bucket.total) < GROUPS_MAX
            place = group if known else (group[0], "", OTHER_GROUP)
            bucket.total[place] += 1
            bucket.bad[place] += bad

    def judge(self, now: float) -> tuple[Rate, ...]:
        """All groups of the last hour, the suspects first."""
        self._bucket(now)
        total: Counter[Group] = Counter()
        bad: Counter[Group] = Counter()
        for bucket in self._buckets:
            total.update(bucket.total)
            bad.update(bucket.bad)
        return _judged(total, bad)

    def _bucket(self, now: float) -> _Bucket:
        number = int(now // BUCKET_S)
        if self._buckets:
            number = max(number, self._buckets[-1].number)  # who was last heard of before it began
        if not self._buckets or self._buckets[-1].number != number:
            self._buckets = [one for one in self._buckets if number - one.number < BUCKETS]
            self._buckets.append(_Bucket(number))
        return self._buckets[-1]


def groups_of(attempt: Attempt, model: str, route: str) -> tuple[Group, ...]:
    """Where a generation is counted."""
    decode, prefill = attempt.worker or UNKNOWN_GROUP, attempt.prefill or UNKNOWN_GROUP
    pair = f"{prefill} -> {decode}" if UNKNOWN_GROUP not in {prefill, decode} else UNKNOWN_GROUP
    values = (decode, prefill, pair, attempt.cached.tier, model, route)
    return tuple(
        (dimension, "" if dimension in _OF_ALL_MODELS else model, value or UNKNOWN_GROUP)
        for dimension, value in zip(DIMENSIONS, values, strict=True)
    )


_OF_ALL_MODELS: Final = frozenset({"model", "route"})


def _judged(total: Mapping[Group, int], bad: Mapping[Group, int]) -> tuple[Rate, ...]:
    everybody, corrupted = _sums(total), _sums(bad)
    rates = []
    for group, count in total.items():
        dimension, model, value = group
        mine, peers = bad.get(group, 0), everybody[dimension, model] - count
        peers_bad = corrupted[dimension, model] - mine
        named = value not in {UNKNOWN_GROUP, OTHER_GROUP}
        p = nan
        if named and peers > 0:
            p = fisher(mine, count, peers_bad, peers) if mine >= BAD_MIN else 1.0
        if not named:
            peers, peers_bad = 0, 0
        rates.append(Rate(dimension, model, value, mine, count, peers_bad, peers, p, suspect=False))
    return tuple(sorted(_holm(rates), key=lambda rate: (not rate.suspect, _ordinal(rate.p), -rate.bad)))


def _sums(counts: Mapping[Group, int]) -> Counter[tuple[str, str]]:
    """Of the groups that are known, by dimension and model."""
    sums: Counter[tuple[str, str]] = Counter()
    for (dimension, model, value), count in counts.items():
        sums[dimension, model] += count if value not in {UNKNOWN_GROUP, OTHER_GROUP} else 0
    return sums


def _holm(rates: Iterable[Rate]) -> list[Rate]:
    """Adjusted p-values: the k-th smallest of m times m - k + 1, and never under the one before."""
    ordered = sorted(rates, key=lambda rate: _ordinal(rate.p))
    tested = sum(not isnan(rate.p) for rate in ordered)
    adjusted, before = [], 0.0
    for place, rate in enumerate(ordered):
        p = rate.p
        if place < tested:
            before = p = min(max(before, p * (tested - place)), 1.0)
        suspect = p <= ALPHA and rate.bad >= BAD_MIN
        adjusted.append(msgspec.structs.replace(rate, p=p, suspect=suspect))
    return adjusted


def _ordinal(p: float) -> float:
    """NaN goes last."""
    return 2.0 if isnan(p) else p


def fisher(bad: int, total: int, peers_bad: int, peers_total: int) -> float:
    """One-sided: how often so many of the bad ones would be dealt to this group by chance."""
    all_bad, everybody = bad + peers_bad, total + peers_total
    most = min(all_bad, total)
    tail = sum(
        exp(
            _ln_choose(all_bad, k) + _ln_choose(everybody - all_bad, total - k) - _ln_choose(everybody, total)
        )
        for k in range(bad, most + 1)
        if total - k <= everybody - all_bad
    )
    return min(tail, 1.0)


def _ln_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
