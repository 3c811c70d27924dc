"""`specguard rules` checks, shows and describes rule sets."""

import json
from pathlib import Path

import pytest
import yaml

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FOUND
from service.config.rules import load_rules, packaged_sets, rules_schema

ROOT = Path(__file__).parents[3]
DEFAULT = ROOT / "rules/sets/default.yaml"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["rules", *words]) == DONE
    return capsys.readouterr().out


def test_a_valid_file_is_said_to_be_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "check", str(DEFAULT)).startswith(f"{DEFAULT}: valid; default@")
    told = json.loads(said(capsys, "check", "--json"))
    assert told["valid"] is True
    assert "loop" in told["detectors"]


def test_a_wrong_number_ends_with_2_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    rules = yaml.safe_load(DEFAULT.read_text())
    rules["detectors"]["silence"]["quiet_s"] = "two"
    file.write_text(yaml.safe_dump(rules))
    assert run(["rules", "check", str(file)]) == BAD_INPUT
    told = capsys.readouterr().err
    assert told == f"specguard: {file}: detectors.silence.quiet_s: expected a valid number, got 'two'\n"


def test_a_set_is_shown_as_it_is_written_and_as_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "show").rstrip() == DEFAULT.read_text().rstrip()
    told = json.loads(said(capsys, "show", "default", "--json"))
    assert told["digest"] == load_rules().digest
    assert told["fusion"]["act"] == load_rules().fusion.act
    assert set(told["detectors"]) == {detector.name for detector in load_rules().detectors}


def test_two_sets_are_compared_number_by_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    rules = yaml.safe_load(DEFAULT.read_text())
    rules["detectors"]["loop"]["word_tokens"] = 90
    del rules["detectors"]["seam"], rules["fusion"]["weights"]["seam"]
    file.write_text(yaml.safe_dump(rules))
    assert run(["rules", "diff", "default", str(file)]) == FOUND
    told = capsys.readouterr().out
    assert "detectors.loop.word_tokens: 80 -> 90\n" in told
    assert "detectors.seam.words: 8 -> absent\n" in told
    assert "garble" not in told
    assert run(["rules", "diff", "default", str(file), "--json"]) == FOUND
    rows = json.loads(capsys.readouterr().out)["changes"]
    assert {"key": "detectors.loop.word_tokens", "before": 80, "after": 90} in rows


def test_a_set_is_the_same_as_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "diff", "default", str(DEFAULT)) == ""
    assert json.loads(said(capsys, "diff", "default", "default", "--json")) == {"same": True, "changes": []}
    assert run(["rules", "diff", "default", "no-such-set"]) == BAD_INPUT


def test_the_packaged_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capsys, "list", "--json")) == {
        name: str(path) for name, path in packaged_sets().items()
    }
    assert said(capsys, "list").startswith("default\t")


def test_the_schema_is_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capsys, "schema")) == rules_schema()
