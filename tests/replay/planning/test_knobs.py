"""Knobs: an arm differs from the control in its one turn, and nothing stays turned."""

from typing import Any

import pytest

from replay.plan import Arm, PlanError
from replay.planning.knobs import Turn, beside, check

USUAL: dict[str, Any] = {
    "control": {"decode": {"race": "unfixed", "waiting_s": 1.2}, "router": {"policy": "rr"}}
}
CONTROL = Arm(name="control", load=4.0, knobs=USUAL)


def test_an_arm_turns_one_knob_and_sets_all_others_as_the_control_does() -> None:
    fence, control = beside(CONTROL, [Turn("fence", {"control": {"decode": {"race": "fixed"}}})])
    assert control is CONTROL
    assert (fence.name, fence.load) == ("fence", 4.0)
    assert fence.knobs["control"] == {
        "decode": {"race": "fixed", "waiting_s": 1.2},
        "router": {"policy": "rr"},
    }
    assert USUAL["control"]["decode"]["race"] == "unfixed"
    check([fence, control])


def test_a_turn_may_be_a_load_or_a_dose() -> None:
    dose = {"backlog_tokens": 9, "prompt_tokens": 3, "prefill_tokens_per_s": 1.0}
    calm, backlog, _ = beside(CONTROL, [Turn("concurrency", 2), Turn("backlog", {"dose": dose})])
    assert (calm.load, calm.knobs) == (2.0, USUAL)
    assert (backlog.load, backlog.knobs) == (4.0, {**USUAL, "dose": dose})
    bare, _ = beside(Arm(name="control"), [Turn("backlog", {"dose": dose})])
    assert bare.knobs == {"dose": dose}


def test_a_knob_that_would_stay_turned_is_refused() -> None:
    arms = beside(CONTROL, [Turn("drafter", {"control": {"decode": {"drafter": "ngram"}}})])
    with pytest.raises(PlanError, match="arm control does not set drafter of decode, which drafter turns"):
        check(arms)
    with pytest.raises(PlanError, match="arm idle does not set race of decode, which peak turns"):
        check([Arm(name="idle"), Arm(name="peak", knobs={"control": {"decode": {"race": "unfixed"}}})])


@pytest.mark.parametrize("control", [5, {"decode": 5}, {"decode": [1]}])
def test_knobs_of_another_shape_are_refused(control: object) -> None:
    with pytest.raises(PlanError, match="arm odd: control is"):
        check([Arm(name="odd", knobs={"control": control})])
