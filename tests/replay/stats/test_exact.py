"""Rates and their exact intervals, against scipy."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from replay.stats.exact import Rate, at_least, exactly


@given(trials=st.integers(1, 50_000), share=st.floats(0, 1))
def test_the_interval_is_that_of_clopper_and_pearson(trials: int, share: float) -> None:
    events = round(trials * share)
    found = binomtest(events, trials).proportion_ci(0.95, method="exact")
    low, high = Rate(events, trials).interval()
    assert isclose(low, found.low, rel_tol=1e-7, abs_tol=1e-12)
    assert isclose(high, found.high, rel_tol=1e-7, abs_tol=1e-12)


def test_the_planning_table_is_met() -> None:
    assert [round(bound, 2) for bound in Rate(4, 10_000).interval_per_10k()] == [1.09, 10.24]
    assert round(Rate(0, 10_000).upper() * 10_000, 2) == 3.0
    assert [round(bound, 2) for bound in Rate(12, 30_000).interval_per_10k()] == [2.07, 6.99]


@given(trials=st.integers(1, 500), events=st.integers(0, 600), share=st.floats(0.001, 0.999))
def test_tails_are_those_of_the_binomial(trials: int, events: int, share: float) -> None:
    assert isclose(at_least(events, trials, share), binom.sf(events - 1, trials, share), abs_tol=1e-9)
    assert isclose(exactly(events, trials, share), binom.pmf(events, trials, share), abs_tol=1e-9)


@pytest.mark.parametrize(("events", "trials"), [(1, 0), (-1, 5), (6, 5)])
def test_counts_that_cannot_be_are_refused(events: int, trials: int) -> None:
    with pytest.raises(ValueError, match=f"{events} events of {trials} trials"):
        Rate(events, trials)


@pytest.mark.parametrize(("events", "trials"), [(0, 1000), (17, 2000), (60, 5000)])
def test_an_interval_holds_what_was_seen(events: int, trials: int) -> None:
    rate = Rate(events, trials)
    low, high = rate.interval_per_10k()
    assert low <= rate.per_10k <= high


def test_fewer_independent_trials_make_a_wider_interval_of_the_same_rate() -> None:
    whole, shrunk = Rate(12, 30_000), Rate(12, 30_000).shrunk(4)
    assert shrunk.per_10k == whole.per_10k
    assert shrunk.upper() > 1.4 * whole.upper()
