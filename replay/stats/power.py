"""How many requests a verdict needs, before they are sent.

The test is the exact conditional one of `replay.stats.ratio`, one-sided. Its power is the probability that
the counts to come, Poisson(n x rate), fall where it refuses: for each total K the least count of the high arm
that is refused is looked up. Power climbs in saw teeth; the size returned is the least from which it does not
fall below what was asked for again.

For "0 against 4 per 10,000": 10,000 requests an arm have a power of 37 %, 20,000 of 90 %.

Cost: a grid of counts, 0.2 to 2 ms a power, 30 ms a size.
"""

from functools import lru_cache
from math import ceil, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, bdtrik, pdtr, pdtrc

from replay.stats.exact import CONFIDENCE, Rate

ALPHA = 0.05
WANTED = 0.9
"""The power that a plan is made for."""

MAX_REQUESTS = 50_000_000
"""A size beyond this is no plan."""

NEGLIGIBLE = 1e-9
"""Probability of the counts that are left out."""


def power(low: float, high: float, requests: int, *, alpha: float = ALPHA, share: float = 0.5) -> float:
    """The chance to see that `high` is above `low` (events a request), with so many requests an arm.

    `share` is the high arm's part of all requests; `requests` are the low arm's.
    """
    if not 0 <= low <= high <= 1:
        raise ValueError("rates are shares, the high one not below the low one")
    mean_low, mean_high = low * requests, high * requests * share / (1 - share)
    lows = np.arange(_last(mean_low) + 1)
    totals = int(lows[-1]) + _last(mean_high) + 2
    highs = _least_highs(lows, _refused(1 << totals.bit_length(), alpha, share))
    beyond = pdtrc(highs - 1, mean_high) if mean_high else np.zeros(len(highs))
    return float((_poisson(lows, mean_low) * np.where(highs > 0, beyond, 1.0)).sum())


def requests_needed(low: float, high: float, *, wanted: float = WANTED, alpha: float = ALPHA) -> int:
    """The least requests an arm with this power and no lower one beyond."""
    if not low < high:
        raise ValueError("there is nothing to tell apart: the high rate must be above the low one")
    size = max(1, ceil(-log(alpha) / high))
    while power(low, high, size, alpha=alpha) < wanted:
        size *= 2
        if size > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS} requests an arm would be needed")
    below, enough = size // 2, size
    while enough - below > max(1, enough // 500):
        middle = (below + enough) // 2
        if power(low, high, middle, alpha=alpha) >= wanted:
            enough = middle
        else:
            below = middle
    return _past_the_teeth(low, high, enough, wanted, alpha)


def requests_clean(rate: float, *, allowed: int = 0, confidence: float = CONFIDENCE) -> int:
    """How many requests with at most `allowed` events show that the rate is below this one."""
    below, enough = allowed, allowed + 1
    while _upper(allowed, enough, confidence) > rate:
        below, enough = enough, 2 * enough
    while enough - below > 1:
        middle = (below + enough) // 2
        if _upper(allowed, middle, confidence) <= rate:
            enough = middle
        else:
            below = middle
    return enough


def _upper(events: int, trials: int, confidence: float) -> float:
    return Rate(events, trials).upper(confidence)


def _past_the_teeth(low: float, high: float, size: int, wanted: float, alpha: float) -> int:
    """Go on until the next half of the size again has no tooth that bites below what is wanted."""
    for ahead in range(1, 26):
        probe = size + size * ahead // 50
        if power(low, high, probe, alpha=alpha) < wanted:
            return _past_the_teeth(low, high, probe + max(1, size // 500), wanted, alpha)
    return size


def _last(mean: float) -> int:
    """A count that is hardly ever passed."""
    count = int(mean + 6 * mean**0.5 + 10)
    while 1 - float(pdtr(count, mean)) > NEGLIGIBLE:
        count += 5
    return count


def _poisson(counts: NDArray[np.int64], mean: float) -> NDArray[np.float64]:
    below = np.where(counts > 0, pdtr(np.maximum(counts - 1, 0), mean), 0.0)
    return np.asarray(pdtr(counts, mean) - below, dtype=np.float64)


def _least_highs(lows: NDArray[np.int64], least: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each count of the low arm the least x of the high arm with x >= least[low + x].

    `least` never falls, so going on from below stops at the least such x; beyond the end there is none.
    """
    last = len(least) - 1
    highs = np.zeros_like(lows)
    while True:
        further = least[np.minimum(lows + highs, last)]
        if (further <= highs).all() or (highs > last).all():
            return highs
        highs = np.maximum(highs, further)


@lru_cache(maxsize=64)
def _refused(totals: int, alpha: float, share: float) -> NDArray[np.int64]:
    """For each total below this the least count of the high arm at which the test refuses."""
    total = np.arange(totals)
    guess = np.ceil(bdtrik(1 - alpha, np.maximum(total, 1), share)).astype(np.int64) + 1
    near = np.clip(guess + np.array([[-1], [0], [1]]), 1, None)
    refused = (near <= total) & (bdtrc(np.minimum(near - 1, total), total, share) <= alpha)
    return np.asarray(np.where(refused, near, total + 1).min(axis=0), dtype=np.int64)
