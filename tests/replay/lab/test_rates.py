"""The curve's test is the textbook's, at the counts that the curve has."""

from math import comb

import pytest

from replay.lab.rates import p_above
from replay.stats.exact import Rate


def test_the_test_is_fishers() -> None:
    assert p_above(Rate(4, 10_000), Rate(0, 10_000)) == pytest.approx(0.0625, abs=2e-4)
    by_hand = sum(comb(4, k) * comb(4, 4 - k) for k in (3, 4)) / comb(8, 4)
    assert p_above(Rate(3, 4), Rate(1, 4)) == pytest.approx(by_hand)
