"""Each layer's share in an answer is measured on the prompt's rows; a fault in any one of them shows."""

import pytest

from replay.lab.depth import layer_sets, measure

REQUESTS = 4


def test_each_layer_comes_alone_then_the_later_half_then_all() -> None:
    assert layer_sets(4) == [(0,), (1,), (2,), (3,), (2, 3), (0, 1, 2, 3)]


def test_no_layer_at_all_changes_nothing() -> None:
    assert [row.changed for row in measure(REQUESTS, [()])] == [0, 0, 0]


@pytest.mark.parametrize("layers", [(1,), (2,), (3,), (2, 3)])
def test_a_fault_in_any_layer_that_looks_up_changes_answers_whatever_its_source(
    layers: tuple[int, ...],
) -> None:
    rows = list(measure(REQUESTS, [layers]))
    assert [row.source for row in rows] == ["zero", "other", "noise"]
    assert min(row.changed for row in rows) > 0.5
    assert "changed" in rows[0].line()


def test_noise_in_the_first_layer_changes_answers() -> None:
    assert list(measure(REQUESTS, [(0,)]))[-1].changed > 0.5
