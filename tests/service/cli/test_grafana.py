"""Dashboards and incidents are brought to a Grafana of ours by the command; what cannot be is one line."""

import json
import sys
from pathlib import Path

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FOUND
from service.edges.boards import BOARDS
from tests.service.admin_running import admin_port
from tests.service.grafana_running import EDITOR, TOKEN, grafana


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", TOKEN)


def test_dashboards_and_incidents_are_pushed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with admin_port(tmp_path) as port, grafana() as running:
        port.keep("r1", "r2")
        command = ["grafana", "push", running.url, "--incidents", "10", "--admin", port.url]
        assert run([*command, "--dry-run"]) == DONE
        assert "would be created" in capsys.readouterr().out
        assert running.written == []
        assert run(command) == DONE
        assert "dashboard  specguard-overview         created\n" in capsys.readouterr().out
        assert len(running.written) == 1 + len(BOARDS) + 2
        assert all(one.time < one.time_end for one in running.annotations)
        assert run([*command, "--json"]) == DONE
        told = json.loads(capsys.readouterr().out)
        assert {step["did"] for step in told["steps"]} == {"unchanged"}
        assert len(running.written) == 1 + len(BOARDS) + 2


def test_without_a_token_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GRAFANA_TOKEN")
    assert run(["grafana", "push", "http://127.0.0.1:1"]) == BAD_INPUT
    assert "GRAFANA_TOKEN is not set" in capsys.readouterr().err


def test_without_the_extra_its_install_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "grafana_client", None)
    monkeypatch.delitem(sys.modules, "grafana_client.api", raising=False)
    monkeypatch.delitem(sys.modules, "service.edges.grafana", raising=False)
    assert run(["grafana", "push", "http://127.0.0.1:1"]) == BAD_INPUT
    assert "needs grafana-client: pip install 'specguard[grafana]'" in capsys.readouterr().err


def test_a_sidecar_that_is_away_is_told_before_anything_is_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with grafana() as running:
        assert (
            run(["grafana", "push", running.url, "--incidents", "1", "--admin", "http://127.0.0.1:1"])
            == FOUND
        )
        assert running.written == []
    assert "no admin port answers there" in capsys.readouterr().err


def test_a_permission_that_lacks_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    with grafana() as running:
        running.may = EDITOR - {"dashboards:create"}
        assert run(["grafana", "push", running.url]) == BAD_INPUT
    assert "the token in GRAFANA_TOKEN lacks dashboards:create" in capsys.readouterr().err


def test_a_dead_grafana_is_not_the_commands_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["grafana", "push", "http://127.0.0.1:1"]) == FOUND
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["ftp://x"], "expected a URL"), (["http://127.0.0.1:1", "--folder", "a/b"], "--folder: a uid is")],
)
def test_bad_input_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["grafana", "push", *arguments]) == BAD_INPUT
    assert said in capsys.readouterr().err
