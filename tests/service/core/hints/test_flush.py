"""Flushing a worker's cache is advised where bad KV is likely to have stayed in it, with its price."""

from typing import Any

import pytest

from service.core.events import Attempt, Cached, Kind
from service.core.hints.flush import WAIT_S
from service.core.hints.signs import NEXT_STEPS, Cause
from tests.service.core.hints.scenes import bad, good, told

HIT = Cached(90, 64)
STEP = f"POST /flush_cache?timeout={WAIT_S} on "


def first_step(*attempts: Attempt, **around: Any) -> str:  # noqa: ANN401 - as `told` takes it
    return next(iter(told(*attempts, **around).values())).next_step


def test_a_zeroed_prefix_that_loops_here_and_not_elsewhere_is_to_be_flushed_with_its_price() -> None:
    step = first_step(bad(Kind.REPETITION, "loop", "ab12", cached=HIT), good())
    assert step.startswith(NEXT_STEPS[Cause.NONE])
    assert f"{STEP}http://d1" in step
    assert "its prefix came from the cache" in step
    assert "every cached prefix there is computed anew" in step


def test_in_a_pair_the_prefill_workers_cache_is_meant_as_well() -> None:
    step = first_step(bad(prefill="http://p1", cached=HIT, engine_said=("checksum_mismatch",)))
    assert f"{STEP}http://d1 and http://p1" in step


def test_without_a_word_on_the_cache_a_clean_answer_elsewhere_is_reason_enough() -> None:
    step = first_step(bad(Kind.SILENT, "silence", "", engine_said=("nan",)), good())
    assert step.startswith(NEXT_STEPS[Cause.NAN])
    assert "may get the same KV from the cache" in step


@pytest.mark.parametrize(
    ("attempts", "around"),
    [
        ([bad(Kind.REPETITION, "loop", "ab12")], {}),  # nothing says that it was the state
        ([bad(cached=HIT), good("http://d1")], {}),  # the same cache served a clean answer
        ([bad(cached=HIT), bad(cached=HIT, worker="http://d2")], {}),  # the prompt's own
        ([bad(cached=HIT)], {"caches": False}),
        ([bad(Kind.TRUNCATED, "truncation", "", cached=HIT)], {}),
    ],
)
def test_where_nothing_calls_for_it_nobody_is_told_to_drop_a_cache(
    attempts: list[Attempt], around: dict[str, Any]
) -> None:
    assert "/flush_cache" not in first_step(*attempts, **around)


def test_causes_with_a_step_of_their_own_get_no_second_one() -> None:
    spoilt = bad(cached=Cached(90, 64, 64, 0))
    hints = told(spoilt, good(), workers=())
    assert hints[Cause.LOAD_BACK].next_step.count("/flush_cache") == 1
