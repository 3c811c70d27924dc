"""`specguard replay judge`: the verdict as words, as JSON and as an exit code."""

import json
from pathlib import Path

import pytest

from replay.judging.verdict import Outcome
from replay.plan import Send
from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FAILING, FOUND, NOT_KEPT, UNDECIDED
from service.cli.replay_judge import code_of
from tests.replay.judging.made import WRONG, Change, planned, ran


def _files(home: Path, change: Change = lambda _: {}) -> list[str]:
    header, sends = planned(home / "p", canaries=1)
    ran(home / "r", header, sends, change)
    return [str(home / "p"), str(home / "r")]


def _bad_at_peak(send: Send) -> dict[str, object]:
    return {"text": WRONG} if send.arm == "peak" and send.id.endswith("3") else {}


def test_a_verdict_is_told_with_what_it_rests_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "judge", *_files(tmp_path, _bad_at_peak)]) == FOUND
    said = capsys.readouterr().out
    assert said.startswith("LOAD-DEPENDENT: p = ")
    assert "rate ratio infinite" in said
    assert "1000.0" in said
    assert "failures: peak: 0 of 200 against 0 of 200, p = 1 adjusted" in said


def test_nothing_bad_is_not_the_load_and_not_reproduced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "judge", *_files(tmp_path), "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"]["verdict"], found["verdict"]["reproduced"]) == ("NOT LOAD-DEPENDENT", False)


def test_what_went_astray_or_failed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def odd(send: Send) -> dict[str, object]:
        if send.arm == "peak" and send.id.endswith("5"):
            return {"ending": "timeout"}
        return {"text": "K7" if send.canary is None else send.canary} if send.role == "canary" else {}

    assert run(["replay", "judge", *_files(tmp_path, odd)]) == DONE
    assert "20 failed" in capsys.readouterr().out


def test_every_outcome_has_a_code_of_its_own() -> None:
    codes = {outcome: code_of(outcome) for outcome in Outcome}
    assert len(set(codes.values())) == len(Outcome)
    assert BAD_INPUT not in codes.values()
    assert {NOT_KEPT, FAILING, UNDECIDED} < set(codes.values())


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, results = _files(tmp_path)
    assert run(["replay", "judge", results, plan]) == BAD_INPUT
    assert "is not a plan" in capsys.readouterr().err
    assert run(["replay", "judge", plan, str(tmp_path / "absent")]) == BAD_INPUT
    assert "absent: No such file" in capsys.readouterr().err
