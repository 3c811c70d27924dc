"""Agent sessions: prefixes grow, branches share, a space drifts, and every right answer is known."""

from typing import Any

import numpy as np
import pytest

from replay.lab.prefix import page_keys
from replay.lab.speculation import reference_answer
from replay.lab.tasks import flatten, prompt_ids
from replay.lab.workloads import MAX_HISTORY_NOTES, MAX_TOOL_S, Plan, Step, candidates, sessions


def one(plan: Plan, number: int = 0) -> list[Step]:
    return next(sessions(1, number, plan))


def shared_pages(first: Step, second: Step) -> int:
    pairs = zip(page_keys(first.task.prompt_ids), page_keys(second.task.prompt_ids), strict=False)
    return next((at for at, (ours, theirs) in enumerate(pairs) if ours != theirs), -1)


def test_the_same_numbers_draw_the_same_sessions() -> None:
    assert one(Plan(steps=5)) == one(Plan(steps=5))
    assert one(Plan(steps=5), 1) != one(Plan(steps=5), 2)


def test_a_prompt_grows_behind_a_prefix_that_stays() -> None:
    steps = one(Plan(steps=12))
    lengths = [len(step.task.prompt_ids) for step in steps]
    assert lengths[-1] > lengths[0] + 80
    assert shared_pages(steps[10], steps[11]) > shared_pages(steps[0], steps[1]) >= 4


def test_a_long_session_compacts_and_stays_within_the_context() -> None:
    steps = one(Plan(steps=100))
    assert [step.index for step in steps] == list(range(100))
    assert sum(step.compacted for step in steps) == 100 // (MAX_HISTORY_NOTES // 2)
    assert max(len(step.task.prompt_ids) for step in steps) < 600


def test_branches_share_the_trunk_and_then_part() -> None:
    first, second, third = sessions(1, 0, Plan(steps=10, branches=3))
    assert [step.index for step in first] == list(range(10))
    assert [step.index for step in second] == [step.index for step in third] == list(range(5, 10))
    assert shared_pages(second[1], third[1]) >= shared_pages(first[0], first[1])
    assert second[1].task.prompt_ids != third[1].task.prompt_ids


def test_a_drifted_prompt_reads_the_same_and_shares_no_page() -> None:
    plain, drifted = one(Plan(steps=6)), one(Plan(steps=6, drift_at=3))
    assert plain[:3] == drifted[:3]
    before, after = plain[3].messages[0]["content"], drifted[3].messages[0]["content"]
    assert before.split() == after.split()
    assert shared_pages(plain[3], drifted[3]) == 0
    assert plain[3].task.answer_ids == drifted[3].task.answer_ids


def test_a_blank_that_wanders_leaves_no_step_the_page_of_the_one_before() -> None:
    steps = one(Plan(steps=40, drift_at=2, wanders=True))
    assert shared_pages(steps[0], steps[1]) >= 4
    firsts = {next(page_keys(step.task.prompt_ids)) for step in steps[2:]}
    assert len(firsts) == 38


def test_candidates_are_one_prompt_under_several_names() -> None:
    (step,) = one(Plan(steps=1))
    several = candidates(step, 4)
    assert len({one_of.session for one_of in several}) == 4
    assert {one_of.task for one_of in several} == {step.task}


def test_tools_are_mostly_quick_and_sometimes_very_slow() -> None:
    waits = [step.tool_s for number in range(20) for step in one(Plan(steps=50), number)[1:]]
    assert 1 < float(np.median(waits)) < 4
    assert max(waits) == MAX_TOOL_S


def test_the_messages_are_the_prompt() -> None:
    for step in one(Plan(steps=4, drift_at=2)):
        assert tuple(prompt_ids(flatten(step.messages))) == step.task.prompt_ids


def test_the_model_answers_them() -> None:
    steps = [step for number in range(3) for step in one(Plan(steps=10, drift_at=5), number)[::3]]
    right = [tuple(reference_answer(step.task.prompt_ids, 120)) == step.task.answer_ids for step in steps]
    assert sum(right) >= 10


@pytest.mark.parametrize(
    "fields", [{"steps": 0}, {"steps": 101}, {"branches": 0}, {"steps": 5, "drift_at": 5}]
)
def test_a_plan_that_cannot_be_drawn_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"step|branch"):
        Plan(**fields)


def test_repr_shows_no_text() -> None:
    (step,) = one(Plan(steps=1))
    assert step.messages[0]["content"] not in repr(step)
