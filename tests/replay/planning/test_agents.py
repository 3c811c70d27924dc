"""Agents made up: prefixes that grow, candidates, branches."""

from itertools import pairwise

import pytest

from replay.plan import PlanError
from replay.planning.agents import Agents, header, trace


def test_each_step_sees_all_before_it_and_comes_after_it() -> None:
    steps = trace(Agents(sessions=3, steps=6))
    for number in range(3):
        own = [one for one in steps if one.session == f"{number}.0"]
        assert [one.turn for one in own] == list(range(6))
        for before, after in pairwise(own):
            assert after.blocks[: len(before.blocks)] == before.blocks
            assert (after.parent, after.at_s > before.at_s) == (before.id, True)
            assert after.prompt_tokens == len(after.blocks) * 64


def test_candidates_share_time_prompt_and_group() -> None:
    steps = [one for one in trace(Agents(sessions=1, steps=2, candidates=4)) if one.turn == 1]
    assert len({one.id for one in steps}) == 4
    assert len({(one.at_s, one.blocks, one.group, one.parent) for one in steps}) == 1


def test_branches_fork_in_the_middle_and_go_ways_of_their_own() -> None:
    steps = {one.id: one for one in trace(Agents(sessions=1, steps=6, branches=3))}
    assert len(steps) == 3 + 3 * 3
    first, other = steps["0.0.5.0"], steps["0.2.5.0"]
    shared = len([1 for a, b in zip(first.blocks, other.blocks, strict=True) if a == b])
    assert shared == len(steps["0.2.3.0"].blocks)
    assert first.blocks[-1] != other.blocks[-1]
    assert steps["0.2.3.0"].parent == "0.0.2.0"


def test_the_seed_decides_and_the_header_says_so() -> None:
    agents = Agents(sessions=4, seed=9)
    assert trace(agents) == trace(agents) != trace(Agents(sessions=4, seed=8))
    assert (header(agents).source, header(agents).block_tokens) == ("agents seed 9", 64)


@pytest.mark.parametrize("wrong", [{"sessions": 0}, {"sessions": 1, "rate_per_s": 0.0}])
def test_sessions_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PlanError, match="agents"):
        Agents(**wrong)  # type: ignore[arg-type]
