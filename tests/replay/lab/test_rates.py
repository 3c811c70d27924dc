"""Intervals and the test are the textbook's, at the counts that the curve has."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lab.rates import Rate, p_above


@pytest.mark.parametrize(
    ("events", "low", "high"), [(0, 0, 3.69), (3, 0.62, 8.76), (4, 1.09, 10.24), (5, 1.62, 11.66)]
)
def test_intervals_are_those_of_the_planning_table(events: int, low: float, high: float) -> None:
    assert Rate(events, 10_000).interval_per_10k == pytest.approx((low, high), abs=0.006)


def test_the_test_is_fishers() -> None:
    assert p_above(Rate(4, 10_000), Rate(0, 10_000)) == pytest.approx(0.0625, abs=2e-4)
    by_hand = sum(comb(4, k) * comb(4, 4 - k) for k in (3, 4)) / comb(8, 4)
    assert p_above(Rate(3, 4), Rate(1, 4)) == pytest.approx(by_hand)


@given(st.integers(0, 60), st.integers(1000, 5000))
def test_an_interval_holds_what_was_seen(events: int, trials: int) -> None:
    rate = Rate(events, trials)
    assert rate.covers(rate.per_10k)
    assert not rate.covers(rate.interval_per_10k[1] * 1.01)


@pytest.mark.parametrize(("events", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_counts_that_cannot_be_are_refused(events: int, trials: int) -> None:
    with pytest.raises(ValueError, match="events of"):
        Rate(events, trials)
