"""The group `specguard replay`: every command helps with an example."""

import pytest

from service.cli import run
from service.cli.exits import DONE
from service.cli.replay import app

COMMANDS = sorted(name for name in app if not name.startswith("-"))


def test_the_group_tells_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--help"]) == DONE
    said = capsys.readouterr().out
    assert all(name in said for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", name, "--help"]) == DONE
    said = capsys.readouterr().out
    assert f"specguard replay {name}" in said
    assert "Example" in said
    assert "--no-" not in said
