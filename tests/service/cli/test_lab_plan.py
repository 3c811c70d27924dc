"""`specguard lab plan` and `lab layersplit`: figures as JSON, bad input named."""

import json

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE


def test_a_plan_is_one_json_line_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "plan", "--layersplit", "--tokens", "60000", "--json"]) == DONE
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["plan"][0]["tokens"] == 60000
    assert run(["lab", "plan", "--layersplit"]) == DONE
    assert "not a measurement" in capsys.readouterr().out


@pytest.mark.e2e
def test_split_and_unsplit_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "layersplit", "--requests", "2", "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["identical"], found["kept_share"]) == (2, 0.5)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["plan"], "--layersplit"),
        (["plan", "--layersplit", "--tokens", "999999"], "999999"),
        (["plan", "--layersplit", "--ranks", "1"], "1 ranks"),
        (["layersplit", "--ranks", "9"], "9 ranks"),
        (["layersplit", "--late-layer", "7"], "layer"),
    ],
)
def test_bad_input_is_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", *words]) == BAD_INPUT
    assert named in capsys.readouterr().err
