"""`specguard lab curve`: bad input is named, the simulator alone answers in one line."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, INTERRUPTED
from tests.replay.lab.test_serve import children, gone

COMMAND = Path(sys.prefix) / "bin" / "specguard"
WORKERS = 5


@pytest.mark.parametrize(
    ("words", "named"),
    [(["--seed", "-1"], "--seed"), (["--simulate", "5"], "--simulate"), (["--speed", "9"], "--speed")],
)
def test_bad_input_is_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "curve", *words]) == BAD_INPUT
    errors = capsys.readouterr().err
    assert named in errors
    assert "Traceback" not in errors


def test_a_state_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "curve", "--state", str(tmp_path)]) == BAD_INPUT
    assert str(tmp_path) in capsys.readouterr().err


def test_the_simulator_needs_no_lab(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "curve", "--simulate", "2000"]) == DONE
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    names = [point["name"] for point in said["points"]]
    assert names == ["idle", "light", "busy", "peak", "fixed"]
    assert (said["points"][0]["per_10k"], said["points"][-1]["per_10k"]) == (0, 0)
    assert said["simulated"] is True


@pytest.mark.e2e
async def test_ctrl_c_ends_it_and_every_worker(tmp_path: Path) -> None:
    state = str(tmp_path / "state.jsonl")
    process = await asyncio.create_subprocess_exec(
        *(str(COMMAND), "lab", "curve", "--state", state), stderr=asyncio.subprocess.PIPE
    )
    while len(workers := children(process.pid)) < WORKERS:  # noqa: ASYNC110 (a strange process has no event)
        await asyncio.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()
    assert (process.returncode, b"Traceback" in errors) == (INTERRUPTED, False)
    await gone(workers)
