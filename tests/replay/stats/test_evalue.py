"""The e-process: what it is worth, and that looking often does not make it lie."""

from math import exp, isclose, log

import numpy as np
import pytest
from scipy.special import betaincc, betaln

from replay.stats.evalue import SHOWN, EProcess


def _textbook(high: int, low: int) -> float:
    """The one-sided uniform mixture on (1/2, 1), closed form."""
    log_e = betaln(high + 1, low + 1) + log(betaincc(high + 1, low + 1, 0.5)) - log(0.5)
    return exp(log_e - (high + low) * log(0.5))


@pytest.mark.parametrize(("high", "low"), [(5, 0), (6, 0), (7, 0), (8, 3), (2, 9), (40, 10)])
def test_it_is_the_uniform_mixture_where_arms_are_equal(high: int, low: int) -> None:
    stake = EProcess()
    for _ in range(high):
        stake.see(0.5, high=True)
    for _ in range(low):
        stake.see(0.5, high=False)
    assert isclose(stake.value, _textbook(high, low), rel_tol=1e-3)


def test_a_share_that_changes_stays_a_fair_game() -> None:
    one, other = EProcess(), EProcess()
    for share in (0.5, 0.2, 0.7):
        one.see(share, high=False)
        other.see(share, high=False)
    before = one.value
    after = 0.3 * one.see(0.3, high=True) + 0.7 * other.see(0.3, high=False)
    assert isclose(after, before, rel_tol=1e-9)


def test_looking_at_every_event_raises_false_alarms_no_more_often_than_promised() -> None:
    rng = np.random.default_rng(8)
    alarms = 0
    for _ in range(400):
        stake = EProcess()
        alarms += any(stake.see(0.4, high=bool(coin)) >= SHOWN for coin in rng.random(80) < 0.4)
    assert alarms / 400 <= 0.05


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="share 1"):
        EProcess().see(1.0, high=True)


def test_it_shows_its_value() -> None:
    assert repr(EProcess()) == "<EProcess 1>"
