"""`specguard lab race`: one line a play, and bad input is named."""

import json

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE


@pytest.mark.parametrize("words", [["--race", "hopeful"], ["--transfer", "pigeon"]])
def test_bad_input_is_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "race", *words]) == BAD_INPUT
    assert words[1] in capsys.readouterr().err


@pytest.mark.e2e
def test_the_fix_has_no_victims(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "race", "--race", "fixed", "--json"]) == DONE
    told = json.loads(capsys.readouterr().out)
    assert [(one["play"], one["race"], one["victims"]) for one in told] == [
        ("late-write", "fixed", []),
        ("cancel-retry", "fixed", []),
    ]
