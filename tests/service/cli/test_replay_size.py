"""`specguard replay size`: the size of a run before it is run."""

import json

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE


def test_a_run_that_is_too_small_is_told_its_power(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "size", "--high", "4", "--requests", "10000", "--rate", "50"]) == DONE
    said = capsys.readouterr().out
    assert "with 10000 an arm the power is 37%" in said
    assert "0.22 h at 50 requests a second" in said


def test_the_figures_come_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "size", "--low", "1", "--high", "4", "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert 45_000 < found["requests_an_arm"] < 52_000
    assert found["power"] is None


def test_equal_rates_cannot_be_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "size", "--low", "4", "--high", "4"]) == BAD_INPUT
    assert "above the low one" in capsys.readouterr().err
