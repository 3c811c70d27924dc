"""Two units in one column are seen; traffic as it is, in whatever order, is not taken for them."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.importers.units import mixed, odd_rate

ROWS = 400


def poisson(seed: int, rows: int = ROWS, mean_s: float = 0.3) -> list[float]:
    random, at_s, times = Random(seed), 0.0, list[float]()
    for _ in range(rows):
        at_s += random.expovariate(1 / mean_s)
        times.append(at_s)
    return times


def told(times: list[float]) -> str:
    return mixed(np.array(times))


@given(seed=st.integers(0, 10_000))
def test_traffic_in_order_is_of_one_unit(seed: int) -> None:
    assert told(poisson(seed)) == ""


@given(seed=st.integers(0, 10_000))
def test_a_shuffled_file_is_of_one_unit(seed: int) -> None:
    times = poisson(seed)
    Random(seed).shuffle(times)
    assert told(times) == ""


@pytest.mark.parametrize("load", [1, 10, 100])
def test_a_day_with_a_quiet_night_is_of_one_unit(load: int) -> None:
    quiet = [1000.0 + 0.3 * load * at for at in range(ROWS)]
    assert told([*poisson(1), *quiet]) == ""


def test_times_on_a_grid_are_of_one_unit() -> None:
    assert told([3.0 * (at // 10) for at in range(ROWS)]) == ""


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_rows_in_seconds_among_rows_in_milliseconds_are_seen(share: float) -> None:
    random = Random(3)
    times = [at_s if random.random() < share else at_s * 1e3 for at_s in poisson(3)]
    assert "lie far before the rows around them" in told(times)


@pytest.mark.parametrize("order", [1, -1])
def test_a_file_put_together_of_two_units_is_seen(order: int) -> None:
    seconds = poisson(5)
    halves = [seconds[: ROWS // 2], [at_s * 1e3 for at_s in seconds[ROWS // 2 :]]][::order]
    assert told([*halves[0], *halves[1]]) != ""


def test_a_change_of_pace_by_a_thousand_is_seen_where_rows_stay_in_order() -> None:
    first = poisson(7)
    after = [first[-1] + 1e3 * at_s for at_s in poisson(8)]
    times = [*first, *after]
    assert all(one <= other for one, other in pairwise(times))
    assert "the time between rows is" in told(times)


@pytest.mark.parametrize("times", [[], [1.0], [0.0, 0.0, 0.0], [5.0, 1.0, 3.0]])
def test_too_few_rows_say_nothing(times: list[float]) -> None:
    assert told(times) == ""


@pytest.mark.parametrize(("mean_s", "odd"), [(0.3, False), (0.0003, True), (3000.0, True)])
def test_a_rate_that_no_fleet_has_is_another_unit(mean_s: float, odd: bool) -> None:
    assert bool(odd_rate(np.array(poisson(1, mean_s=mean_s)))) is odd
    assert odd_rate(np.array(poisson(1, rows=10, mean_s=mean_s))) == ""
