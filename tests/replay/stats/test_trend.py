"""The exact trend: against enumeration, the binomial, and its own level."""

from itertools import product
from math import factorial, isclose, prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.stats.exact import Rate, at_least
from replay.stats.trend import trend


def _enumerated(counts: list[int], trials: list[int]) -> float:
    """Sum the multinomial over all tables with a statistic as large."""
    total, observed = sum(counts), sum(rank * count for rank, count in enumerate(counts))
    shares = [trial / sum(trials) for trial in trials]
    tables = (table for table in product(range(total + 1), repeat=len(counts)) if sum(table) == total)
    return sum(
        factorial(total) * prod(share**k / factorial(k) for share, k in zip(shares, table, strict=True))
        for table in tables
        if sum(rank * k for rank, k in enumerate(table)) >= observed
    )


@given(
    counts=st.lists(st.integers(0, 3), min_size=2, max_size=4),
    trials=st.lists(st.integers(100, 900), min_size=4, max_size=4),
)
def test_it_is_the_sum_over_all_tables(counts: list[int], trials: list[int]) -> None:
    used = trials[: len(counts)]
    found = trend([Rate(count, trial) for count, trial in zip(counts, used, strict=True)])
    assert isclose(found, _enumerated(counts, used), rel_tol=1e-9)


def test_the_planning_examples_are_met() -> None:
    def of(*counts: int) -> float:
        return round(trend([Rate(count, 10_000) for count in counts]), 5)

    assert (of(0, 1, 3, 8), of(0, 0, 1, 4), of(1, 2, 2, 3)) == (0.00036, 0.00586, 0.21768)


def test_two_levels_are_the_conditional_test() -> None:
    assert isclose(trend([Rate(30, 1_000), Rate(50, 2_000)]), at_least(50, 80, 2 / 3), rel_tol=1e-9)


def test_equal_rates_are_called_a_trend_no_more_often_than_promised() -> None:
    rng = np.random.default_rng(2)
    counts = rng.poisson(3, (2_000, 4))
    refused = np.mean([trend([Rate(int(k), 10_000) for k in row]) <= 0.05 for row in counts])
    assert refused < 0.05 + 3 * (0.05 * 0.95 / 2_000) ** 0.5
