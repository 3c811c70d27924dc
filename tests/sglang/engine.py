"""The real SGLang on two CPU cores, as a process with our probe in it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import msgspec

KIT: Final = Path(__file__).parents[1] / "fixtures" / "sglang-cpu"
START_S: Final = 600.0
"""With its first start the engine compiles what it drafts with."""
NGRAM: Final = ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "5")


class Engine(msgspec.Struct):
    """A server that answers."""

    url: str
    log: Path
    bootstrap_port: int = 0

    def said(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")


@contextmanager
def engine(
    home: Path, log: Path, mode: str, flags: tuple[str, ...], environment: Mapping[str, str]
) -> Iterator[Engine]:
    """Start one server; its probe is configured by the environment."""
    port, bootstrap = free_port(), free_port()
    told = {**os.environ, "BOOTSTRAP_PORT": str(bootstrap), **environment}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(KIT / "serve.sh"), str(home), str(port), mode, *flags],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=told,
            start_new_session=True,
        )
    one = Engine(f"http://127.0.0.1:{port}", log, bootstrap)
    try:
        _await(one, process)
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def break_next(fault: Path, kind: str) -> None:
    """The engine looks for the file at each step, and renames it when it has done what it says."""
    new = fault.with_suffix(".new")
    new.write_text(json.dumps({"kind": kind, "from": 0.0, "to": 1.0, "min_len": 38}))
    new.rename(fault)


def was_broken(fault: Path) -> bool:
    return not fault.exists()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(one: Engine, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(
                f"the engine ended at its start:\n{one.log.read_text(errors='replace')[-3000:]}"
            )
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{one.url}/model_info", timeout=5, trust_env=False).is_success:
                return
        time.sleep(1)
    raise TimeoutError(f"no answer within {START_S} s:\n{one.log.read_text(errors='replace')[-3000:]}")
