import pytest

from replay.bench.interval import wilson


def test_wilsons_interval_holds_near_the_ends() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(0, 10_000)
    assert low == 0
    assert 3e-4 < high < 4e-4
    low, high = wilson(50, 100)
    assert low == pytest.approx(0.4038, abs=1e-4)
