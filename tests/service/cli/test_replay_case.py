"""`specguard replay case` and `watch`, against a real admin port and a server that streams."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, NOT_ALLOWED, NOT_KEPT, UNDECIDED
from tests.service.admin_running import PROMPT, AdminPortRunning, admin_port
from tests.service.cli.test_replay_run import backend

LOAD = (
    "--requests",
    "12",
    "--rate",
    "60",
    "--peak",
    "2",
    "--rounds",
    "2",
    "--margin",
    "9000",
    "--quick",
    "--pause-s",
    "0.1",
)

ENDS = {DONE, UNDECIDED, NOT_KEPT}
"""A machine that is busy with other tests may not keep so fast a schedule; the verdict says so then."""


def ids(port: AdminPortRunning) -> list[str]:
    """Newest first."""
    return [one["id"] for one in httpx.get(f"{port.url}/api/cases").json()["cases"]]


def replays(port: AdminPortRunning, case: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{port.url}/api/cases/{case}/replays").json()["replays"]
    return found


def test_a_dry_run_prices_a_case_and_sends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port:
        port.keep("r1")
        command = ["replay", "case", ids(port)[0], "--admin", port.url, "--out", str(tmp_path / "out")]
        assert run([*command, "--dry-run", "--requests", "2000", "--json"]) == DONE
        said = capsys.readouterr().out
        price = json.loads(said[said.index("{") :])
        assert price["requests"] >= 4000
        assert price["seconds"] > 1000
        assert run([*command, "--dry-run"]) == DONE
        said = capsys.readouterr().out
        assert "min" in said
        assert PROMPT not in said
        assert run(command) == BAD_INPUT
        assert "--dry-run" in capsys.readouterr().err


def test_a_case_is_replayed_and_the_verdict_told_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port, backend() as (target, mock):
        port.keep("r1")
        (case,) = ids(port)
        where = ["--admin", port.url, "--out", str(tmp_path / "out"), "--target", target]
        assert run(["replay", "case", case, *where, "--allow", "127.0.0.1", *LOAD]) in ENDS
        said = capsys.readouterr().out
        assert "not reproduced" in said
        assert mock.requests >= 24
        (told,) = replays(port, case)
        assert (told["reproduced"], told["high_per_10k"]) == (False, 0.0)
        assert f"{told['verdict']}: " in said
        assert (tmp_path / "out" / case / "verdict.json").is_file()


def test_a_target_that_is_not_allowed_gets_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port, backend() as (target, mock):
        port.keep("r1")
        where = ["--admin", port.url, "--out", str(tmp_path / "out"), "--target", target]
        assert run(["replay", "case", ids(port)[0], *where, *LOAD]) == NOT_ALLOWED
        assert mock.requests == 0
        assert replays(port, ids(port)[0]) == []
        assert run(["replay", "watch", *where, "--most", "1", *LOAD]) == NOT_ALLOWED
        assert "is not among the allowed hosts" in capsys.readouterr().err
        assert mock.requests == 0


def test_a_watch_takes_the_oldest_first_and_none_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port, backend() as (target, _):
        port.keep("r1")
        port.keep("r2")
        newest, oldest = ids(port)
        where = ["--admin", port.url, "--out", str(tmp_path / "out"), "--target", target]
        command = ["replay", "watch", *where, "--allow", "127.0.0.1", "--most", "1", *LOAD]
        assert run(command) == DONE
        assert oldest in capsys.readouterr().out
        assert run([*command, "--json"]) == DONE
        assert json.loads("{" + capsys.readouterr().out.rpartition("{")[2])["case"] == newest
        assert [len(replays(port, case)) for case in (oldest, newest)] == [1, 1]
