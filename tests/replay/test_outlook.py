"""A plan is looked over before anything is sent."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from replay.outlook import look_over, sends_of
from replay.plan import PlanError, Send
from replay.shard import Shard
from tests.replay.runkit import evenly, plan_of, send


def test_a_plan_is_told_by_its_busiest_second_and_who_is_waited_for(tmp_path: Path) -> None:
    sends = [*evenly(30, 0.1), send("z", 9.0), send("z2", 9.5, after="z")]
    outlook = look_over(plan_of(tmp_path / "p", sends))
    assert (len(outlook.ids), outlook.awaited, outlook.last_s) == (32, frozenset({"z"}), 9.5)
    assert outlook.peak_per_s == pytest.approx(10, abs=1)


@pytest.mark.parametrize(
    ("sends", "told"),
    [
        ([send("a", 1.0), send("b", 0.5)], "b is out of order"),
        ([send("a", 1.0), send("a", 2.0)], "a is there twice"),
        ([send("a", 0.0, after="b"), send("b", 1.0)], "a comes after b"),
        ([send("a", 0.0, after="a")], "a comes after a"),
        ([send("a", 0.0, path="/x y")], "no path"),
        ([send("a", 0.0, path="http://prod/x")], "no path"),
        ([send("a", 0.0, path="/a\r\nhost: b")], "no path"),
        ([send("a", 0.0, body=None)], "neither a body nor a recipe"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(tmp_path: Path, sends: Sequence[Send], told: str) -> None:
    with pytest.raises(PlanError, match=told):
        look_over(plan_of(tmp_path / "p", sends))


def test_a_shard_has_its_own_sends_only(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "p", evenly(50, 0.1))
    parts = [look_over(plan, Shard(number, 3)) for number in range(3)]
    assert sum(len(part.ids) for part in parts) == 50
    assert [one.id for one in sends_of(plan, parts[1])] == [
        f"r{n}" for n in range(50) if f"r{n}" in parts[1].ids
    ]
    assert parts[0].peak_per_s < 10
