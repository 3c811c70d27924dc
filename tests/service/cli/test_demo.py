"""`specguard demo`: bad input is one line and exit code 2; nothing is started for it."""

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--fault", "gremlins"], "gremlins"),
        (["--fault", "nan:-1"], "nan"),
        (["--fault-rate", "1.5"], "--fault-rate"),
        (["--agents", "0"], "--agents"),
        (["--requests", "0"], "--requests"),
        (["--seconds", "0"], "--seconds"),
        (["--data-port", "70000"], "--data-port"),
        (["--speed", "11"], "--speed"),
    ],
)
def test_bad_input_is_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", *words]) == BAD_INPUT
    out, errors = capsys.readouterr()
    assert out == ""
    assert named in errors
    assert "Traceback" not in errors


def test_help_has_an_example_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--help"]) == DONE
    text = " ".join(capsys.readouterr().out.split())
    assert "Example: specguard demo" in text
    assert "130 Ctrl-C" in text
