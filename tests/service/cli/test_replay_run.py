"""`specguard replay run`, `worker` and `merge` by hand: exit codes, and nothing sent by mistake."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from replay.mock import Mock, serve
from replay.runner import State, Summary
from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FAILING, FOUND, INTERRUPTED, NOT_ALLOWED, NOT_KEPT, Unfit
from service.cli.replay_run import RunWishes, end_code, exit_code, lines_of, progress_line
from tests.replay.runkit import by_id, evenly, plan_of

ALLOW = ("--allow", "127.0.0.1")


@contextmanager
def backend(chunks: int = 3, pace_ms: float = 1.0) -> Iterator[tuple[str, Mock]]:
    """The mock on a loop of its own: the command has the main thread."""
    loop, mock = asyncio.new_event_loop(), Mock(chunks, pace_ms)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serve(mock), loop).result(5)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", mock
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
    await asyncio.sleep(0.05)


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(["replay", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.e2e
def test_a_run_measures_the_client_and_ends_with_its_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(5, 0.02)), tmp_path / "r"
    with backend() as (url, mock):
        words = ["run", str(plan), "--target", url, "--out", str(out), *ALLOW, "--json", "--model", "m"]
        code, said, on_stderr = told(words, capsys)
    assert code in {DONE, NOT_KEPT}  # the machine may be busy
    assert mock.requests == 5
    assert json.loads(said)["by_ending"] == {"complete": 5}
    assert "us of CPU a chunk" in on_stderr
    header = json.loads(out.read_text().splitlines()[0])
    assert header["calibration"]["cpu_us_per_chunk"] > 0


def test_a_target_that_is_not_allowed_is_exit_5_and_gets_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(5, 0.01)), tmp_path / "r"
    with backend() as (url, mock):
        for allowed in ([], ["--allow", "localhost"]):
            code, _, on_stderr = told(
                ["run", str(plan), "--target", url, "--out", str(out), *allowed], capsys
            )
            assert code == NOT_ALLOWED
            assert "nothing was sent" in on_stderr
        fast = ["--max-rate", "4", "--quick"]
        code, _, on_stderr = told(
            ["run", str(plan), "--target", url, "--out", str(out), *ALLOW, *fast], capsys
        )
        assert (code, mock.requests) == (NOT_ALLOWED, 0)
    assert not out.exists()


def test_a_backend_that_is_not_there_is_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(tmp_path / "p", evenly(30, 0.01))
    words = [
        "run",
        str(plan),
        "--target",
        "http://127.0.0.1:9",
        "--out",
        str(tmp_path / "r"),
        *ALLOW,
        "--quick",
    ]
    code, said, _ = told(words, capsys)
    assert code == FAILING
    assert "BACKEND FAILING" in said
    assert "--resume" in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["absent.plan"], "absent.plan: No such file"),
        (["PLAN", "--control", "decode"], "ROLE=URL"),
        (["PLAN", "--key-env", "SPECGUARD_NO_SUCH_KEY"], "holds no key"),
        (["PLAN", "--ca", "absent.pem"], "absent.pem"),
        (["PLAN", "--target", "ftp://x"], "a target is http://"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    plan = str(plan_of(tmp_path / "p", evenly(2, 0.01)))
    given = [plan if word == "PLAN" else word for word in words]
    target = [] if "--target" in words else ["--target", "https://127.0.0.1:9"]
    code, _, on_stderr = told(
        ["run", *given, *target, "--out", str(tmp_path / "r"), *ALLOW, "--quick"], capsys
    )
    assert code == BAD_INPUT
    assert named in on_stderr
    assert not (tmp_path / "r").exists() or not (tmp_path / "r").read_bytes()


def test_shards_make_one_file_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, parts = plan_of(tmp_path / "p", evenly(12, 0.005)), []
    with backend() as (url, mock):
        for number in range(2):
            part = str(tmp_path / f"r{number}")
            words = ["worker", str(plan), "--shard", f"{number}/2", "--target", url, "--out", part]
            assert told([*words, *ALLOW, "--quick"], capsys)[0] in {DONE, NOT_KEPT}
            parts.append(part)
    whole = str(tmp_path / "all")
    code, said, _ = told(["merge", *parts, "--out", whole, "--apart"], capsys)
    assert code == DONE
    assert "2 shards of plan" in said
    assert len(by_id(Path(whole))) == mock.requests == 12
    assert told(["merge", parts[0], parts[0], "--out", f"{whole}2"], capsys)[0] == BAD_INPUT
    assert told(["merge", "absent", "--out", f"{whole}3"], capsys)[0] == BAD_INPUT


def test_what_is_no_shard_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["worker", "p", "--shard", "2/2", "--target", "http://x", "--out", str(tmp_path / "r")]
    code, _, on_stderr = told(words, capsys)
    assert code == BAD_INPUT
    assert "K/N" in on_stderr


@pytest.mark.e2e
async def test_ctrl_c_lets_what_is_under_way_end_and_the_rest_can_follow(tmp_path: Path) -> None:
    plan, out = (
        plan_of(tmp_path / "p", evenly(5000, 0.01)),
        tmp_path / "r",
    )  # far longer than it takes to stop
    specguard = str(Path(sys.prefix) / "bin" / "specguard")
    with backend(chunks=20, pace_ms=10) as (url, mock):
        words = ("replay", "run", str(plan), "--target", url, "--out", str(out), *ALLOW, "--quick", "--json")
        process = await asyncio.create_subprocess_exec(specguard, *words, stdout=asyncio.subprocess.PIPE)
        while mock.requests < 50:  # noqa: ASYNC110 - the mock lives on another loop
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said, _ = await asyncio.wait_for(process.communicate(), 50)
    summary = json.loads(said)
    assert process.returncode == INTERRUPTED
    assert summary["by_ending"] == {"complete": summary["sent"]}
    assert summary["left"] == 5000 - summary["sent"] > 0


def summary(**more: Any) -> Summary:  # noqa: ANN401 - fields of a summary
    fields: dict[str, Any] = {
        "sent": 10,
        "ended": 10,
        "failures": 0,
        "left": 0,
        "by_ending": {"complete": 10},
        "kept": True,
        "late_arm": "peak",
        "late_p99_ms": 1.5,
        "late_limit_ms": 5.0,
        "stopped": None,
        "failing": False,
        "seconds": 3.0,
    }
    return Summary(**{**fields, **more})


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, DONE),
        ({"kept": False}, NOT_KEPT),
        ({"failing": True, "stopped": "errors", "kept": False}, FAILING),
        ({"failing": True}, FAILING),
        ({"stopped": "disk"}, FOUND),
        ({"stopped": "control"}, FOUND),
        ({"stopped": "interrupted", "failing": True}, INTERRUPTED),
    ],
)
def test_each_end_has_its_exit_code(more: dict[str, Any], code: int) -> None:
    assert exit_code(summary(**more)) == code
    # Where 1 is a verdict, a run that had to stop is not to be taken for one.
    assert end_code(summary(**more)) == (BAD_INPUT if code == FOUND else code)


def test_a_broken_schedule_is_told_in_capitals() -> None:
    text = "\n".join(lines_of(summary(kept=False, late_p99_ms=9.0, earlier=4), Path("r")))
    assert "schedule NOT KEPT: 99 % of the sends within 9 ms, allowed 5 ms (peak)" in text
    assert "10 sent (4 earlier)" in text


def test_progress_is_a_line_of_counts() -> None:
    line = progress_line(State(12.0, 60.0, 100, 500, 7, 93, 1))
    assert line == "    12 of 60 s  sent 100 of 500  under way 7  ended 93  failed 1"


def test_a_key_comes_from_the_environment_and_into_no_output() -> None:
    name = "SPECGUARD_TEST_KEY"
    os.environ[name] = "sesame"
    try:
        options = RunWishes(key_env=name).options("http://x", None)
        assert options.headers == {"authorization": "Bearer sesame"}
        assert "sesame" not in repr(options)
        os.environ[name] = "a\r\nb"
        with pytest.raises(Unfit):
            RunWishes(key_env=name).options("http://x", None)
    finally:
        del os.environ[name]
