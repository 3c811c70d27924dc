"""`specguard replay bisect`: the knob as words, as JSON and as an exit code."""

import json
from pathlib import Path

import msgspec
import pytest

from replay.plan import Arm, Send
from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FOUND, NOT_ALLOWED, NOT_KEPT
from tests.replay.judging.made import CONTRAST, WRONG, Change, planned, ran
from tests.service.cli.test_replay_run import backend

ARMS = (Arm(name="fence"), Arm(name="drafter"), Arm(name="control"))


def _files(home: Path, change: Change) -> list[str]:
    asked = msgspec.structs.replace(CONTRAST, low="fence", high="control")
    header, sends = planned(home / "p", arms=ARMS, contrast=asked)
    ran(home / "r", header, sends, change)
    return [str(home / "p"), str(home / "r")]


def _unfenced(send: Send) -> dict[str, object]:
    return {"text": WRONG} if send.arm != "fence" and send.id.endswith("3") else {}


def test_the_knob_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _files(tmp_path, _unfenced)
    assert run(["replay", "bisect", *files]) == FOUND
    assert capsys.readouterr().out.startswith("cause: fence: 0 of 200 bad answers against 20 of 200")
    assert run(["replay", "bisect", *files, "--json"]) == FOUND
    assert json.loads(capsys.readouterr().out)["knob"] == "fence"


def test_no_knob_is_an_answer_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "bisect", *_files(tmp_path, lambda _: {})]) == DONE
    assert "nothing to take away" in capsys.readouterr().out


@pytest.mark.e2e
def test_a_plan_of_turns_is_run_and_compared_in_one_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, results, log = tmp_path / "knobs.plan", tmp_path / "knobs.results", tmp_path / "bodies"
    log.write_text('{"prompt": "a"}\n' * 8)
    assert run(["replay", "import", str(log), "--out", str(tmp_path / "t")]) == DONE
    usual = 'control={"control": {"decode": {"race": "unfixed"}}}'
    fence = 'fence={"control": {"decode": {"race": "fixed"}}}'
    turns = ["--knobs", usual, "--turn", fence, "--turn", "calm=1"]
    size = ["--arm", "control=2", "--rate", "40", "--rounds", "2", "--pause-s", "0.7"]
    assert run(["replay", "plan", str(tmp_path / "t"), "--out", str(plan), *size, *turns]) == DONE
    with backend() as (url, mock):
        where = ["--target", url, "--allow", "127.0.0.1", "--control", f"decode={url}/control", "--quick"]
        ended = run(["replay", "bisect", str(plan), str(results), *where])
        assert ended in {DONE, NOT_KEPT}  # a machine that is busy with other tests
        assert mock.requests == 7 * (4 + 1)  # each block, and the order before it
    said = capsys.readouterr().out
    assert ("nothing to take away" in said) is (ended == DONE)


def test_a_target_that_nobody_allowed_is_not_bisected(tmp_path: Path) -> None:
    files = _files(tmp_path, lambda _: {})
    assert run(["replay", "bisect", *files, "--target", "http://127.0.0.1:9", "--quick"]) == NOT_ALLOWED


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _files(tmp_path, lambda _: {})
    assert run(["replay", "bisect", *files, "--against", "night"]) == BAD_INPUT
    assert "needs a control" in capsys.readouterr().err
    assert run(["replay", "bisect", files[0], str(tmp_path / "absent")]) == BAD_INPUT
    assert "absent: No such file" in capsys.readouterr().err
