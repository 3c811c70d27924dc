"""A failing backend is told within seconds, a single failure is not one."""

from replay.errors import ErrorLimit
from replay.results import Ending

ERROR: Ending = "error"
GOOD: Ending = "complete"
ABORTED: Ending = "aborted"


def limit(*endings: Ending, every_s: float = 0.1, share: float = 0.2) -> ErrorLimit:
    found = ErrorLimit(share)
    for number, ending in enumerate(endings):
        found.add(ending, number * every_s)
    return found


def test_a_backend_that_only_fails_is_told_after_five() -> None:
    assert not limit(*[ERROR] * 4).passed
    assert limit("error", "reset", "timeout", "refused", "error").passed


def test_a_share_within_the_limit_passes_nothing() -> None:
    assert not limit(*([GOOD] * 9 + [ERROR]) * 30).passed
    assert limit(*([GOOD] * 7 + [ERROR] * 3) * 30).passed


def test_a_backend_that_breaks_after_a_good_hour_is_told_within_ten_seconds() -> None:
    found = limit(*[GOOD] * 30_000)
    start_s = 3000.0
    for number in range(100):
        found.add("error", start_s + number * 0.1)
        if found.passed:
            assert number * 0.1 < 10
            break
    assert found.passed
    assert not found.passed_in_all


def test_what_the_client_aborts_is_no_failure() -> None:
    assert not limit(*[ABORTED] * 100).passed


def test_a_slow_run_that_only_fails_is_ended_too() -> None:
    assert not limit(*[ERROR] * 4, every_s=60.0).passed
    assert limit(*[ERROR] * 5, every_s=60.0).passed


def test_failures_far_apart_end_no_run_but_count_in_all() -> None:
    found = limit(*[ERROR, GOOD] * 10, every_s=20.0)
    assert not found.passed
    assert found.passed_in_all
    assert (found.failures, found.ended) == (10, 20)


def test_failures_that_end_before_the_answers_sent_with_them_are_a_share_of_all() -> None:
    fast, hang = ErrorLimit(0.2), ErrorLimit(0.2)
    for number in range(10):
        fast.add("error", number * 1.0, going_on=50)  # one in fifty; the others are still being answered
        hang.add("timeout", number * 1.0)  # nobody is left of those sent before
    assert not fast.passed
    assert hang.passed


def test_a_backend_that_turns_bad_under_long_answers_is_told_within_ten_seconds() -> None:
    found = ErrorLimit(0.2)
    for number in range(500):  # fifty a second, each refused; those sent before the turn go on
        at_s = number / 50
        found.add("error", at_s, going_on=round(50 * (10 - at_s)))
        if found.passed:
            break
    assert found.passed
    assert at_s < 5
