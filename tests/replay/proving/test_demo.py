"""The demo: arms that differ in what they should, and one short run of everything on lab and router."""

from itertools import count
from pathlib import Path

import msgspec
import pytest

from replay.bisect import Bisected
from replay.judge import Judged
from replay.judging.verdict import Outcome
from replay.lab.slot import Race
from replay.proving.demo import Named, Part, Shown, Size, crowded, knob_arms, load_arms, run
from replay.proving.stage import HOT
from tests.replay.judging.made import rules

CLEAN = Part(Outcome.NOT_LOAD_DEPENDENT, 1.0, 0.0, 0.0, 100)


def test_the_same_protocol_runs_at_both_loads() -> None:
    idle, peak = (arm.knobs["control"] for arm in load_arms(Race.FIXED))
    assert idle["decode"] == peak["decode"]
    assert idle["decode"]["race"] == "fixed"
    assert idle[HOT]["backlog_ms"] == 0 < peak[HOT]["backlog_ms"]
    assert load_arms(Race.FIXED)[1].load > 1


def test_each_knob_is_turned_alone() -> None:
    *knobs, control = knob_arms()
    assert control.name == "control"
    usual = control.knobs["control"]
    for arm in knobs:
        own = arm.knobs["control"]
        turned = [name for name, value in own["decode"].items() if value != usual["decode"][name]]
        turned += ["backlog"] * (own[HOT] != usual[HOT]) + ["load"] * (arm.load != control.load)
        assert len(turned) == 1


@pytest.mark.parametrize(
    ("unfixed", "knob", "held"),
    [
        (Outcome.LOAD_DEPENDENT, "fence", True),
        (Outcome.UNDECIDED, "fence", False),
        (Outcome.LOAD_DEPENDENT, "timeout", False),
    ],
)
def test_the_demo_holds_only_if_everything_is_right(unfixed: Outcome, knob: str, held: bool) -> None:
    bad = msgspec.structs.replace(CLEAN, verdict=unfixed)
    shown = Shown(bad, CLEAN, Named(knob, "cause", 0.01), "sglang-log", desensitised=True, seconds=1.0)
    assert shown.held is held


def test_a_machine_with_other_things_to_do_is_told_so_beforehand() -> None:
    assert crowded(0.1) == ""
    assert "take 80% of this machine" in crowded(0.8)


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_a_short_run_leaves_its_files_and_finds_no_wrong_answer_behind_the_fence(tmp_path: Path) -> None:
    said: list[str] = []
    clock = count()
    shown = run(
        tmp_path,
        rules(),
        Size(rounds=1, requests=4, pause_s=0.1),
        said.append,
        lambda: float(next(clock)),
    )
    assert not shown.fixed.per_10k
    assert not shown.fixed.idle_per_10k
    assert (shown.imported, shown.desensitised, shown.seconds) == ("sglang-log", True, 1.0)
    assert any("bisect" in line for line in said)
    judged = msgspec.json.decode((tmp_path / "fixed.json").read_bytes(), type=Judged)
    assert judged.coverage.results == judged.coverage.planned == 12
    assert sum(one.trials for one in judged.levels) > 0  # a machine that is not quiet times some out
    named = msgspec.json.decode((tmp_path / "bisect.json").read_bytes(), type=Bisected)
    assert [one.knob for one in named.findings] == [
        "fence",
        "timeout",
        "speculation",
        "backlog",
        "concurrency",
    ]
    assert (tmp_path / "unfixed.html").read_text().startswith("<!doctype html>")
