"""`specguard replay gpu-check`: a report in a file, an exit code, and no host that was not named."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from service.cli import run
from service.cli.exits import BAD_INPUT, FOUND, NOT_ALLOWED
from tests.replay.pairkit import Pair, pairing

COMPOSE = Path(__file__).parents[3] / "docker" / "gpu-pd" / "compose.yaml"


@contextmanager
def running() -> Iterator[Pair]:
    """The pair on a loop of its own: the command has the main thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    context = pairing()
    pair = asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(10)
    try:
        yield pair
    finally:
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(10)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def words(pair: Pair, out: Path, *more: str) -> list[str]:
    workers = ["--prefill", f"{pair.url}/prefill", "--decode", f"{pair.url}/decode"]
    return ["replay", "gpu-check", "--target", pair.url, *workers, "--out", str(out), *more]


def test_a_pair_that_does_not_speculate_is_told_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    with running() as pair:
        pair.info["decode"]["speculative_algorithm"] = None
        code = run(words(pair, out, "--allow", "127.0.0.1"))
    report = json.loads(out.read_text())
    assert code == FOUND
    assert (report["ok"], report["steps"][0]["name"]) == (False, "workers")
    assert "does not speculate" in capsys.readouterr().out
    assert "never" in report["provenance"]


def test_no_host_is_allowed_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.json"
    with running() as pair:
        assert run(words(pair, out)) == NOT_ALLOWED
        assert pair.pages == 0
    assert "nothing was sent" in capsys.readouterr().err
    assert not out.exists()


def test_a_report_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running() as pair:
        pair.info["decode"]["speculative_algorithm"] = None
        code = run(words(pair, tmp_path / "no" / "report.json", "--allow", "127.0.0.1"))
    assert code == BAD_INPUT
    assert "No such file" in capsys.readouterr().err


def test_the_kit_has_what_the_command_looks_for() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    for mode in ("prefill", "decode"):
        command = services[mode]["command"]
        assert f"--disaggregation-mode {mode} " in command
        assert "--speculative-algorithm" in command
        assert "--host 127.0.0.1" in command
        assert "--enable-metrics" in command
    assert "never been run" in (COMPOSE.parent / "README.md").read_text()
