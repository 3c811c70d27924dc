"""Plans: arms that differ in nothing but what they are about."""

from collections import Counter
from math import inf, nan
from time import process_time
from typing import Any

import pytest
from msgspec.structs import replace

from replay.canary import MARK
from replay.plan import RETURN, Arm, Contrast, PlanError, PlanHeader, Send
from replay.planning.agents import Agents
from replay.planning.agents import header as agents_header
from replay.planning.agents import trace as agents_trace
from replay.planning.make import Wishes, make
from replay.trace import FORMAT, TraceHeader, TraceRequest

HEADER = TraceHeader(format=FORMAT, source="made", block_tokens=16)
CONTRAST = Contrast(low="idle", high="peak", margin_per_10k=40, incident_window_s=5)
ARMS = (Arm(name="idle"), Arm(name="peak", load=4.0))


def _trace(count: int = 40, **fields: Any) -> list[TraceRequest]:  # noqa: ANN401
    return [TraceRequest(id=str(at), at_s=float(at), prompt_tokens=20, **fields) for at in range(count)]


def _made(traffic: list[TraceRequest], **wishes: Any) -> tuple[PlanHeader, list[Send]]:  # noqa: ANN401
    return make(HEADER, traffic, Wishes(**{"arms": ARMS, "contrast": CONTRAST, "rounds": 4, **wishes}))


def _of_round(header: PlanHeader, sends: list[Send], arm: str, number: int) -> list[Send]:
    (block,) = (one.index for one in header.blocks if one.arm == arm and one.round == number)
    return [send for send in sends if send.block == block]


def test_every_arm_sends_the_same_requests_in_every_round() -> None:
    header, sends = _made(_trace())
    for number in range(4):
        idle, peak = (_of_round(header, sends, arm, number) for arm in ("idle", "peak"))
        assert [one.id.split(".")[2] for one in idle] == [one.id.split(".")[2] for one in peak]
        assert [one.control_of for one in peak] == [one.id for one in idle]
        assert idle[0].recipe is not None
        assert peak[0].recipe is not None
        assert idle[0].recipe.salt != peak[0].recipe.salt
    assert len({send.id for send in sends}) == len(sends) == header.sends == 2 * 40 + 10


def test_the_load_is_the_arm_s_and_blocks_do_not_overlap() -> None:
    header, sends = _made(_trace())
    idle, peak = (_of_round(header, sends, arm, 0) for arm in ("idle", "peak"))
    assert idle[-1].at_s - idle[0].at_s == pytest.approx(4 * (peak[-1].at_s - peak[0].at_s))
    at_s = 0.0
    for block in header.blocks:
        assert block.start_s == at_s
        own = [send.at_s for send in sends if send.block == block.index]
        assert block.start_s <= min(own) <= max(own) <= block.end_s - 5
        at_s = block.end_s
    assert header.duration_s == at_s
    assert [send.at_s for send in sends] == sorted(send.at_s for send in sends)


def test_the_end_goes_back_to_the_lowest_arm_without_a_control() -> None:
    header, sends = _made(_trace())
    last = header.blocks[-1]
    assert (last.round, last.arm) == (RETURN, "idle")
    assert all(send.control_of is None for send in sends if send.block == last.index)


def test_the_same_seed_is_the_same_plan() -> None:
    wishes = {"abort_share": 0.3, "candidates": 2, "canaries": 1}
    assert _made(_trace(), **wishes, seed=3) == _made(_trace(), **wishes, seed=3)
    assert _made(_trace(), **wishes, seed=3) != _made(_trace(), **wishes, seed=4)


def test_more_requests_than_the_trace_has_are_copies_and_fewer_are_whole_families() -> None:
    _, sends = _made(_trace(), requests=100)
    assert Counter(send.arm for send in sends)["peak"] in range(100, 121)
    _, sends = _made(_trace(), requests=10)
    assert Counter(send.arm for send in sends)["peak"] == 10


def test_a_rate_takes_the_place_of_the_trace_s_own() -> None:
    header, sends = _made(_trace(80), rate_per_s=10, rounds=1)
    idle = _of_round(header, sends, "idle", 0)
    assert idle[-1].at_s - idle[0].at_s == pytest.approx(8, rel=0.05)
    at_once = [TraceRequest(id=str(at), at_s=0, body={"prompt": "p"}) for at in range(20)]
    header, sends = _made(at_once, rate_per_s=10, rounds=1)
    idle = _of_round(header, sends, "idle", 0)
    assert idle[-1].at_s - idle[0].at_s == pytest.approx(1.9)


def test_turns_wait_for_the_turn_before_them_within_their_block() -> None:
    agents = Agents(sessions=8, steps=3)
    header, sends = make(
        agents_header(agents), agents_trace(agents), Wishes(arms=ARMS, contrast=CONTRAST, rounds=2)
    )
    known = {send.id: send for send in sends}
    waiting = [send for send in sends if send.after]
    assert len(waiting) == len(sends) * 2 / 3
    assert all(known[send.after or ""].block == send.block for send in waiting)
    assert header.notes[0] == "from agents seed 0"


def test_candidates_go_out_together_with_seeds_that_every_arm_has() -> None:
    requests = [TraceRequest(id=str(at), at_s=at, body={"prompt": "p"}, expected="e") for at in range(8)]
    header, sends = _made(requests, candidates=3, rounds=2)
    idle, peak = (_of_round(header, sends, arm, 1) for arm in ("idle", "peak"))
    assert [one.body for one in idle] == [one.body for one in peak]
    group = [one for one in idle if one.group == idle[0].id or one.id == idle[0].id]
    assert len({one.at_s for one in group}) == 1
    assert len({(one.body or {}).get("seed") for one in group}) == 3
    assert {one.expected for one in idle} == {"e", None}


def test_recorded_aborts_stay_and_others_are_drawn() -> None:
    requests = [*_trace(20, abort_after_s=9.0), *(TraceRequest(id=f"x{at}", at_s=at) for at in range(400))]
    _, sends = _made(requests, abort_share=0.25)
    drawn = [send.abort_after_s for send in sends if ".x" in send.id]
    assert {send.abort_after_s for send in sends if ".x" not in send.id} == {9.0}
    assert 0.15 < sum(one is not None for one in drawn) / len(drawn) < 0.35


def test_ignore_eos_is_never_planned_and_the_notes_say_what_was_dropped() -> None:
    requests = [
        TraceRequest(id=str(at), at_s=at, body={"prompt": "p", "ignore_eos": True}) for at in range(8)
    ]
    header, sends = _made(requests)
    assert all("ignore_eos" not in (send.body or {}) for send in sends)
    assert f"dropped ignore_eos from {len(sends)} bodies" in header.notes


def test_canaries_and_doses_are_no_samples() -> None:
    dose = {"backlog_tokens": 1000, "prompt_tokens": 500, "prefill_tokens_per_s": 500}
    arms = (ARMS[0], Arm(name="peak", load=4.0, knobs={"dose": dose}))
    _, sends = _made(_trace(), arms=arms, canaries=2)
    roles = Counter((send.arm, send.role) for send in sends)
    assert roles["idle", "canary"] == 2 * 5
    assert roles["peak", "canary"] == 2 * 4
    assert roles["peak", "dose"] > 8
    assert ("idle", "dose") not in roles
    assert all(MARK.fullmatch(send.canary or "") for send in sends if send.role == "canary")
    assert roles["peak", "sample"] == 40


def test_the_notes_tell_ties_and_what_the_size_can_do() -> None:
    requests = [TraceRequest(id=str(at), at_s=float(at // 4)) for at in range(40)]
    header, _ = _made(requests, ties="poisson", thin=0.9)
    assert "30 of 40 requests tied; spread: poisson" in header.notes
    assert header.notes[-1].endswith("2000 have 90%")


@pytest.mark.parametrize(
    ("wishes", "named"),
    [
        ({"arms": ()}, "arms need names"),
        ({"arms": (ARMS[0], ARMS[0])}, "arms need names"),
        ({"arms": (ARMS[0], Arm(name="busy"))}, "the contrast names peak"),
        ({"arms": ARMS[::-1]}, "must be the first arm"),
        ({"arms": (ARMS[0], Arm(name="peak", load=0))}, "load is a number above 0"),
        ({"arms": (ARMS[0], Arm(name="peak", load=inf))}, "load is a number above 0"),
        ({"arms": (ARMS[0], Arm(name="peak", load=nan))}, "load is a number above 0"),
        ({"rate_per_s": inf}, "a rate is a number above 0"),
        ({"pause_s": inf}, "a pause one of seconds"),
        ({"contrast": replace(CONTRAST, margin_per_10k=inf)}, "a margin is above 0"),
        ({"contrast": replace(CONTRAST, incident_window_s=inf)}, "window of an incident"),
        ({"rounds": 41}, "fill 40 rounds, not 41"),
        ({"thin": 0}, "at least one round"),
        ({"thin": 0.001}, "no request is left"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(wishes: dict[str, Any], named: str) -> None:
    with pytest.raises(PlanError, match=named):
        _made(_trace(), **wishes)


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(PlanError, match="no requests"):
        _made([])


def test_twelve_thousand_requests_of_long_prompts_plan_in_a_second() -> None:
    """As in the public Mooncake trace; processor time, and twice as much for a machine that is shared."""
    requests = [
        TraceRequest(id=str(at), at_s=at // 10 * 3.0, prompt_tokens=12_000, blocks=tuple(range(at, at + 24)))
        for at in range(12_031)
    ]
    began = process_time()
    header, _ = _made(requests, rounds=10)
    assert process_time() - began < 2
    assert header.sends > 24_000
