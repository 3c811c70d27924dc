"""Each layer's share in an answer is measured on the prompt's rows; faults in the late ones show."""

import pytest

from replay.lab.depth import layer_sets, measure

REQUESTS = 4


def test_each_layer_comes_alone_then_the_later_half_then_all() -> None:
    assert layer_sets(4) == [(0,), (1,), (2,), (3,), (2, 3), (0, 1, 2, 3)]


def test_no_layer_at_all_changes_nothing() -> None:
    assert [row.changed for row in measure(REQUESTS, [()])] == [0, 0, 0]


@pytest.mark.parametrize("layers", [(2, 3), (0,)])
def test_faults_in_late_layers_and_in_the_first_change_answers(layers: tuple[int, ...]) -> None:
    rows = list(measure(REQUESTS, [layers]))
    assert [row.source for row in rows] == ["zero", "other", "noise"]
    assert max(row.changed for row in rows) > 0.5
    assert "changed" in rows[0].line()
