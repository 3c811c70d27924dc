"""`specguard replay case` and `watch`, against a real admin port and a server that streams."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.cli import run
from service.cli.admin_port import AdminPort, Where
from service.cli.exits import BAD_INPUT, DONE, FOUND, NOT_ALLOWED, NOT_KEPT, UNDECIDED, Unfit
from service.cli.replay_case import TOLD, _waiting
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


def test_a_verdict_that_could_not_be_told_is_told_without_a_second_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with admin_port(tmp_path) as port, backend() as (target, mock):
        port.keep("r1")
        (case,) = ids(port)
        body = {"verdict": "UNDECIDED", "reproduced": False, "p": 1.0, "requests": 4, "seconds": 2.0}
        folder = tmp_path / "out" / case
        folder.mkdir(parents=True)
        (folder / TOLD).write_text(json.dumps({"why": "too few", "body": body | {"plan_hash": "ab"}}))
        where = ["--admin", port.url, "--out", str(tmp_path / "out"), "--target", target]
        assert run(["replay", "watch", *where, "--allow", "127.0.0.1", "--most", "1", *LOAD]) == DONE
        assert "UNDECIDED  too few" in capsys.readouterr().out
        assert [one["verdict"] for one in replays(port, case)] == ["UNDECIDED"]
        assert mock.requests == 0
        assert not (folder / TOLD).exists()


def test_a_replay_that_was_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with admin_port(tmp_path) as port, backend() as (target, mock):
        port.keep("r1")
        (case,) = ids(port)
        where = [
            "--admin",
            port.url,
            "--out",
            str(tmp_path / "out"),
            "--target",
            target,
            "--allow",
            "127.0.0.1",
        ]
        assert run(["replay", "case", case, *where, *LOAD, "--keep-to-yourself"]) in ENDS
        sent, results = mock.requests, tmp_path / "out" / case / "case.results"
        assert replays(port, case) == []
        lines = results.read_bytes().splitlines(keepends=True)
        half = b"".join(lines[: len(lines) // 2])  # as a kill would have left it, the second half not sent
        results.write_bytes(half)
        assert run(["replay", "watch", *where, "--most", "1", *LOAD]) == DONE
        assert mock.requests == 2 * sent - half.count(b'"kind":"sent"')
        assert len(replays(port, case)) == 1


class Away(AdminPort):
    """A sidecar that is away for a while, then has two cases."""

    def __init__(self, times: int) -> None:
        super().__init__(Where())
        self.times = times

    def rows(self, path: str, wanted: Mapping[str, str | None], *, most: int) -> Iterator[dict[str, Any]]:
        self.times -= 1
        if self.times >= 0:
            raise Unfit("nobody answers", FOUND)
        yield from ({"id": name, "replay": None} for name in ("newest", "oldest"))


def test_a_sidecar_that_is_away_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    rests: list[float] = []
    passed: set[str] = set()
    waiting = _waiting(Away(2), passed, 7.0, rests.append)
    assert next(waiting) == "oldest"
    assert rests == [7.0, 7.0]
    assert capsys.readouterr().err.count("nobody answers") == 2
    assert next(waiting) == "oldest"  # it could not be told: it comes again, after a rest
    assert rests == [7.0, 7.0, 7.0]
    passed.add("oldest")
    assert next(waiting) == "newest"
    assert len(rests) == 3


def test_what_a_missing_sidecar_ends_with_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["replay", "case", "abc", "--admin", "http://127.0.0.1:9", "--out", str(tmp_path), "--dry-run"]
    assert run(words) == BAD_INPUT
    assert "no admin port answers there" in capsys.readouterr().err
