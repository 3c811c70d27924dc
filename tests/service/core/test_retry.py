from hypothesis import given
from hypothesis import strategies as st

from service.core.retry import FLOOR_PER_S, RATIO, PerSecond, RetryBudget


def test_a_quiet_fleet_may_retry_a_few_a_second() -> None:
    budget = RetryBudget()
    assert [budget.take(5.0) for _ in range(FLOOR_PER_S + 1)] == [True] * FLOOR_PER_S + [False]
    assert budget.take(6.0)


def test_a_busy_fleet_may_retry_a_tenth_of_what_it_completes() -> None:
    budget = RetryBudget()
    for _ in range(1000):
        budget.completed(10.0)
    granted = sum(budget.take(10.5) for _ in range(500))
    assert granted == RATIO * 1000


def test_the_budget_forgets_after_a_minute() -> None:
    budget = RetryBudget()
    for _ in range(100):
        budget.completed(0.0)
    assert sum(budget.take(1.0) for _ in range(50)) == 10
    assert budget.left(1.0) == 0.0
    assert budget.left(62.0) == 1.0


@given(st.lists(st.floats(0, 300), max_size=200).map(sorted))
def test_a_minute_counts_exactly_the_last_sixty_seconds(times: list[float]) -> None:
    counts = PerSecond()
    for place, at in enumerate(times):
        counts.add(at)
        recent = [t for t in times[: place + 1] if int(t) > int(at) - 60]
        assert counts.last_minute(at) == len(recent)


def test_its_state_shows() -> None:
    budget = RetryBudget()
    budget.completed(0.0)
    budget.take(0.0)
    assert repr(budget) == "<RetryBudget 1 retried of 1 completed>"
