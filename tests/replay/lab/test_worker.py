"""One worker process: told everything in one argument, ended by the end of its lifeline."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from replay.lab.kvpool import PoolShape, make_memory
from replay.lab.speculation import load_models
from replay.lab.worker import Spec, fail

ROOT = Path(__file__).parents[3]


@contextmanager
def decode_worker() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    target, draft = load_models()
    memory = make_memory(PoolShape(target.shape, draft.shape, 8), "test")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        spec = Spec(
            "decode", "decode-0", 0, 8, listener.fileno(), {"decode-0": memory}, fault="nan", fault_rate=0.5
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "replay.lab.worker", msgspec.json.encode(spec).decode()],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[listener.fileno(), memory],
            cwd=ROOT,
        )
    os.close(memory)
    try:
        yield process, url
    finally:
        process.kill()
        process.communicate()


def test_a_spec_survives_the_command_line() -> None:
    spec = Spec(
        "prefill", "prefill-1", 1, 64, 5, {"prefill-1": 6, "decode-0": 7}, bootstrap_fd=8, onset=(2, 9)
    )
    assert msgspec.json.decode(msgspec.json.encode(spec), type=Spec) == spec


def test_a_worker_says_in_one_line_why_it_cannot_start(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fail("decode-0: target.npz: truncated")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "decode-0: target.npz: truncated\n"


@pytest.mark.e2e
def test_a_worker_serves_until_its_lifeline_ends_and_then_goes_quietly() -> None:
    with decode_worker() as (process, url):
        said = httpx.get(f"{url}/lab/control", timeout=50, trust_env=False).json()
        assert (said["worker"], said["fault"], said["rate"]) == ("decode-0", "nan:1", 0.5)
        _, errors = process.communicate(timeout=50)
        assert (process.returncode, errors) == (0, b"")


@pytest.mark.e2e
def test_a_worker_obeys_sigterm() -> None:
    with decode_worker() as (process, url):
        httpx.get(f"{url}/health", timeout=50, trust_env=False)
        process.terminate()
        assert process.wait(20) in {0, -signal.SIGTERM}
