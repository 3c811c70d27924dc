"""`specguard lab scenario`: lists, plays, names bad input."""

import json

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE


def test_without_a_name_the_situations_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "scenario"]) == DONE
    assert "loadback-collapse" in capsys.readouterr().out


@pytest.mark.e2e
def test_a_scenario_ends_in_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "scenario", "calm", "--seconds", "1.5", "--json"]) == DONE
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert report["phases"][0]["sent"] > 0
    assert "decode-1" in told.err


@pytest.mark.parametrize(
    ("words", "named"), [(["earthquake"], "earthquake"), (["calm", "--seconds", "0"], "--seconds")]
)
def test_bad_input_is_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "scenario", *words]) == BAD_INPUT
    assert named in capsys.readouterr().err
