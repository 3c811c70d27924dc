"""`specguard replay demo`: what is refused before a lab is started."""

from pathlib import Path

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT


def test_a_directory_that_is_there_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "demo", "--out", str(tmp_path)]) == BAD_INPUT
    assert "File exists" in capsys.readouterr().err
