"""`specguard replay plan`: a plan from a trace or from agents, and mistakes named."""

import json
from pathlib import Path

import pytest

from replay.plan import verify
from replay.trace import FORMAT, TraceHeader, TraceRequest, write_trace
from service.cli import run
from service.cli.exits import BAD_INPUT, DONE


def _trace(home: Path) -> str:
    path = home / "traffic.trace"
    requests = (TraceRequest(id=str(at), at_s=at // 2, prompt_tokens=20) for at in range(60))
    write_trace(path, TraceHeader(format=FORMAT, source="made", block_tokens=16), requests)
    return str(path)


def test_a_trace_becomes_a_plan_that_says_what_it_can_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "peak.plan"
    words = ["--arm", "idle=1", "--arm", "peak=4", "--rounds", "3", "--margin", "40"]
    assert run(["replay", "plan", _trace(tmp_path), "--out", str(out), *words]) == DONE
    said = capsys.readouterr().out
    header = verify(out)
    assert f"{header.sends} sends in 7 blocks" in said
    assert "30 of 60 requests tied" in said
    assert header.hash in said
    assert header.contrast is not None
    assert (header.contrast.low, header.contrast.high) == ("idle", "peak")


def test_agents_and_knobs_come_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "agents.plan"
    knobs = [f'{arm}={{"control": {{"decode": {{"race": "unfixed"}}}}}}' for arm in ("idle", "peak")]
    set_by_both = ["--knobs", knobs[0], "--knobs", knobs[1]]
    words = ["--agents", "20", "--steps", "4", "--branches", "2", "--rounds", "2", *set_by_both, "--json"]
    assert run(["replay", "plan", "--out", str(out), *words]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert found["hash"] == verify(out).hash
    assert found["arms"][1]["knobs"]["control"]["decode"] == {"race": "unfixed"}
    assert "blocks" not in found


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "name a trace, or say --agents"),
        (["absent.trace"], "absent.trace: No such file"),
        (["--agents", "9", "--arm", "idle"], "NAME=LOAD"),
        (["--agents", "9", "--arm", "idle=0", "--arm", "peak=2"], "above 0"),
        (["--agents", "9", "--knobs", "peak={"], "NAME=JSON"),
        (["--agents", "9", "--knobs", "top={}"], "top, which is no --arm"),
        (["--agents", "9", "--knobs", 'peak={"control": {"decode": {"a": 1}}}'], "it would stay turned"),
        (["--agents", "9", "--turn", "calm=1"], "--turn goes with one --arm"),
        (["--agents", "9", "--arm", "control=4", "--turn", "calm"], "NAME=LOAD or NAME=JSON"),
        (["--agents", "9", "--contrast", "idle,night"], "names night"),
        (["--agents", "9", "--rounds", "99"], "not 99"),
    ],
)
def test_mistakes_are_named(
    words: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "plan", "--out", str(tmp_path / "p"), *words]) == BAD_INPUT
    assert named in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x"
    path.write_text("hello\n")
    assert run(["replay", "plan", str(path), "--out", str(tmp_path / "p")]) == BAD_INPUT
    assert "is not a trace" in capsys.readouterr().err


def test_counting_changes_adds_an_arm_to_compare_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--event", "changed", "--rounds", "2", "--json"]
    assert run(["replay", "plan", _trace(tmp_path), "--out", str(tmp_path / "p"), *words]) == DONE
    assert [arm["name"] for arm in json.loads(capsys.readouterr().out)["arms"]] == ["control", "idle", "peak"]


def test_turns_are_arms_beside_the_control_that_they_are_held_against(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fence = 'fence={"control": {"decode": {"race": "fixed"}}}'
    usual = 'control={"control": {"decode": {"race": "unfixed"}}}'
    turns = ["--arm", "control=4", "--knobs", usual, "--turn", fence, "--turn", "calm=2"]
    words = ["--out", str(tmp_path / "p"), "--rounds", "2", *turns, "--json"]
    assert run(["replay", "plan", _trace(tmp_path), *words]) == DONE
    made = json.loads(capsys.readouterr().out)
    assert [(arm["name"], arm["load"]) for arm in made["arms"]] == [("fence", 4), ("calm", 2), ("control", 4)]
    assert (made["contrast"]["low"], made["contrast"]["high"]) == ("fence", "control")
