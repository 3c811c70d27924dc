"""The measurements of the lab's model: what they count is what their names say."""

from dataclasses import replace

import numpy as np
import pytest

from replay.lab.quality import (
    FAULTS,
    Outcome,
    Run,
    distinct_3_grams,
    drawn,
    measure_clean,
    measure_fault,
    tail_loops,
)


@pytest.mark.parametrize("period", [1, 5, 16])
def test_a_tail_that_repeats_within_16_tokens_loops(period: int) -> None:
    assert tail_loops([99, 98, *(at % period for at in range(64))])


def test_a_longer_period_a_short_answer_or_one_odd_token_is_no_loop() -> None:
    assert not tail_loops([at % 17 for at in range(200)])
    assert not tail_loops([7] * 63)
    assert not tail_loops([*[7] * 100, 8, *[7] * 40])


def test_distinct_3_grams_count_each_3_gram_once() -> None:
    assert distinct_3_grams([1, 1, 1, 1, 1]) == pytest.approx(1 / 3)
    assert distinct_3_grams([1, 2, 3, 4]) == 1.0
    assert distinct_3_grams([1, 2]) == 1.0


def test_an_outcome_reads_well_only_if_it_is_wrong_short_and_without_a_loop() -> None:
    believed = Outcome(
        wrong=True,
        ends=True,
        loops=False,
        tokens=60,
        distinct_3_grams=1.0,
        accept_6=0.1,
        accept_12=0.1,
        clean_accept_6=0.7,
    )
    assert believed.reads_well
    assert not replace(believed, wrong=False).reads_well
    assert not replace(believed, loops=True).reads_well
    assert not replace(believed, tokens=256).reads_well


def test_a_run_counts_its_steps_without_the_one_that_eos_cuts_short() -> None:
    run = Run(drawn(1)[0]).until(256)
    assert run.is_over
    assert run.accept_rate(0) == np.mean(run.accepted[:-1]) / 4


def test_clean_requests_are_measured() -> None:
    assert measure_clean(4)["right"].keys() == {"copy", "edit", "extract", "order"}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_changes_answers(name: str) -> None:
    row = measure_fault(name, at_tokens=5, requests=3)
    assert row["requests"] == 3
    assert row["wrong"] > 0


def test_nan_is_never_right_never_ends_and_loops() -> None:
    row = measure_fault("nan", at_tokens=12, requests=3)
    assert (row["wrong"], row["ends"], row["loops"], row["accept_6"]) == (1.0, 0.0, 1.0, 0.0)
