"""`specguard replay bisect`: the knob as words, as JSON and as an exit code."""

import json
from pathlib import Path

import msgspec
import pytest

from replay.plan import Arm, Send
from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FOUND
from tests.replay.judging.made import CONTRAST, WRONG, Change, planned, ran

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


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _files(tmp_path, lambda _: {})
    assert run(["replay", "bisect", *files, "--control", "night"]) == BAD_INPUT
    assert "needs a control" in capsys.readouterr().err
    assert run(["replay", "bisect", files[0], str(tmp_path / "absent")]) == BAD_INPUT
    assert "absent: No such file" in capsys.readouterr().err
