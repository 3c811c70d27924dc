"""Incidents are listed and shown over the real admin API."""

import json
from pathlib import Path

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE
from tests.service.admin_running import admin_port


def test_incidents_are_listed_narrowed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with admin_port(tmp_path) as port:
        assert run(["incidents", "list", "--admin", port.url]) == DONE
        assert capsys.readouterr().out == "no incidents\n"
        port.keep("r1", "r2")
        assert run(["incidents", "list", "--admin", port.url, "--rid", "r2", "--json"]) == DONE
        (row,) = json.loads(capsys.readouterr().out)
        assert (row["rid"], row["level"], len(row["attempts"])) == ("r2", "corrupt", 2)
        assert run(["incidents", "list", "--admin", port.url, "--level", "suspect"]) == DONE
        assert capsys.readouterr().out == "no incidents\n"
        assert run(["incidents", "list", "--admin", port.url]) == DONE
        head, newest, _ = capsys.readouterr().out.splitlines()
        assert head.split()[:4] == ["at", "level", "kind", "detector"]
        assert "http://w:1 > unknown" in newest
        assert run(["incidents", "show", row["id"], "--admin", port.url, "--json"]) == DONE
        assert json.loads(capsys.readouterr().out) == row
        assert run(["incidents", "show", row["id"], "--admin", port.url]) == DONE
        said = capsys.readouterr().out
        assert "attempt 1             http://p:1 -> http://w:1: corrupt repetition, 120 tokens" in said
        assert "complete, the engine said nan\nattempt 2             unknown: clean" in said
        assert row["case_id"] in said
        assert "possible              bad_gpu: token 0\n                      next: take it out" in said


def test_an_incident_that_is_not_there_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port:
        assert run(["incidents", "show", "0" * 24, "--admin", port.url]) == BAD_INPUT
    assert "has no incidents/000" in capsys.readouterr().err
