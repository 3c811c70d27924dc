"""Two rates compared, against scipy and by simulation."""

from math import inf, isclose, isnan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from replay.stats.exact import Rate
from replay.stats.ratio import contrast, difference_upper


@given(
    high=st.integers(0, 40),
    low=st.integers(0, 40),
    n_high=st.integers(5_000, 20_000),
    n_low=st.integers(5_000, 20_000),
)
def test_the_test_is_the_conditional_binomial_one(high: int, low: int, n_high: int, n_low: int) -> None:
    found = contrast(Rate(high, n_high), Rate(low, n_low))
    if high + low == 0:
        assert (found.p, found.ratio_low, found.ratio_high) == (1.0, 0.0, inf)
        assert isnan(found.ratio)
        return
    theirs = binomtest(high, high + low, n_high / (n_high + n_low), alternative="greater")
    assert isclose(found.p, theirs.pvalue, rel_tol=1e-7)
    share = binomtest(high, high + low).proportion_ci(0.95, method="exact")
    if high:
        assert isclose(found.ratio_low, share.low / (1 - share.low) * n_low / n_high, rel_tol=1e-6)
    assert found.mid_p <= found.p  # equal where both are 1 but for what a float can hold


def test_the_planning_examples_are_met() -> None:
    assert contrast(Rate(4, 10_000), Rate(0, 10_000)).p == 0.0625
    found = contrast(Rate(8, 10_000), Rate(1, 10_000))
    assert round(found.p, 4) == 0.0195
    assert (round(found.ratio_low, 2), round(found.ratio_high)) == (1.07, 355)


def test_the_bound_on_the_difference_is_the_rule_of_three_without_events() -> None:
    assert round(difference_upper(Rate(0, 30_000), Rate(0, 30_000)) * 10_000, 2) == 1.0


def test_the_bound_on_the_difference_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    for low, high in ((0.0, 4e-4), (2e-4, 6e-4), (1e-3, 1e-3)):
        highs, lows = rng.binomial(10_000, high, 1_500), rng.binomial(10_000, low, 1_500)
        bounds = [
            difference_upper(Rate(a, 10_000), Rate(b, 10_000)) for a, b in zip(highs, lows, strict=True)
        ]
        assert np.mean(np.array(bounds) >= high - low) > 0.94
