"""Power and sample sizes: the planning table, and simulation of the very test."""

import numpy as np
import pytest

from replay.stats.exact import Rate
from replay.stats.power import power, requests_clean, requests_needed
from replay.stats.ratio import contrast


@pytest.mark.parametrize(
    ("low", "high", "percent"),
    [(0, 3, [2, 18, 71, 95]), (0, 4, [5, 37, 90, 99]), (1, 4, [3, 18, 48, 70]), (2, 4, [2, 9, 22, 33])],
)
def test_the_planning_table_is_met(low: int, high: int, percent: list[int]) -> None:
    sizes = (5_000, 10_000, 20_000, 30_000)
    assert [round(100 * power(low / 1e4, high / 1e4, size)) for size in sizes] == percent


@pytest.mark.parametrize(("low", "high", "share"), [(2e-4, 12e-4, 0.5), (3e-4, 12e-4, 0.3)])
def test_the_power_is_how_often_the_test_refuses(low: float, high: float, share: float) -> None:
    rng, runs = np.random.default_rng(3), 1_500
    n_low, n_high = 10_000, round(10_000 * share / (1 - share))
    highs, lows = rng.binomial(n_high, high, runs), rng.binomial(n_low, low, runs)
    refused = [
        contrast(Rate(int(a), n_high), Rate(int(b), n_low)).p <= 0.05
        for a, b in zip(highs, lows, strict=True)
    ]
    said = power(low, high, n_low, share=share)
    assert abs(np.mean(refused) - said) < 3.5 * (said * (1 - said) / runs) ** 0.5


def test_a_size_has_its_power_from_there_on() -> None:
    needed = requests_needed(1e-4, 4e-4)
    assert all(power(1e-4, 4e-4, round(needed * more)) >= 0.9 for more in (1, 1.03, 1.1, 1.3))
    assert power(1e-4, 4e-4, round(needed * 0.9)) < 0.9


def test_clean_runs_are_sized_exactly() -> None:
    assert [requests_clean(rate) for rate in (1e-4, 5e-5, 3e-4)] == [29_956, 59_914, 9_985]
    needed = requests_clean(1e-4, allowed=2)
    assert Rate(2, needed).upper() <= 1e-4 < Rate(2, needed - 1).upper()


def test_what_cannot_be_told_apart_has_no_size() -> None:
    with pytest.raises(ValueError, match="above the low one"):
        requests_needed(4e-4, 4e-4)
    with pytest.raises(ValueError, match="more than"):
        requests_needed(1e-4, 1.0001e-4)
    with pytest.raises(ValueError, match="shares"):
        power(0.2, 0.1, 100)
