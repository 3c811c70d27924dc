"""`specguard serve` as a process: it says where it listens, and ends as its exit codes say."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.cli import run
from service.cli.exits import BAD_INPUT, DONE, FOUND

COMMAND = Path(sys.prefix) / "bin" / "specguard"
ROUTER = "http://127.0.0.1:1"


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A serving process, and the line in which it says where."""
    file = folder / "sidecar.yaml"
    file.write_text(f"router: {ROUTER}\nstore: sqlite+aiosqlite:///{folder / 'specguard.db'}\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SPECGUARD_")}
    words: list[str | Path] = [
        COMMAND,
        "serve",
        "--config",
        file,
        "--data-port",
        "0",
        "--admin-port",
        "0",
        *options,
    ]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, env=env, text=True)
    try:
        assert process.stderr is not None
        yield process, json.loads(process.stderr.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path) as (process, line):
        assert line["event"] == "listening"
        assert line["router"] == ROUTER
        assert httpx.get(f"{line['admin']}/readyz", trust_env=False).json()["ready"] is True
        assert httpx.get(f"{line['data']}/health", trust_env=False).status_code == 503
        process.send_signal(number)
        assert process.wait(10) == DONE
        assert process.stderr is not None
        events = [json.loads(line)["event"] for line in process.stderr]
        assert events[-2:] == ["signal", "stopped"]
    assert (tmp_path / "specguard.db").is_file()


@pytest.mark.e2e
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words: list[str | Path] = [COMMAND, "serve", "--router", ROUTER, "--data-port", str(port)]
        ended = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=50, check=False)
    assert ended.returncode == FOUND
    assert ended.stderr.splitlines()[-1] == f"specguard: data port 127.0.0.1:{port}: Address already in use"


def test_configuration_that_cannot_stand_is_told_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text("router: nowhere\ndata_prot: 1\n")
    assert run(["serve", "--config", str(file), "--policy", "fierce"]) == BAD_INPUT
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"specguard: {file}: router: expected a URL such as")
    assert any(f"{file}: data_prot: unknown key; did you mean data_port?" in line for line in lines)
    assert any("command line: policy: expected 'observe', 'protect' or 'strict'" in line for line in lines)


def test_a_rule_set_that_cannot_stand_is_told_before_a_port_is_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "mine.yaml"
    rules.write_text("name: mine\ndetectors: {silence: {quiet_s: many}}\nfusion: {}\n")
    assert run(["serve", "--router", ROUTER, "--rules", str(rules)]) == BAD_INPUT
    assert (
        f"{rules}: detectors.silence.quiet_s: expected a valid number, got 'many'" in capsys.readouterr().err
    )
