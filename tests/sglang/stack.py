"""What stands before the engine in production, as processes: the smg router, and our own sidecar."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from tests.sglang.engine import Engine, free_port

SMG: Final = Path(sys.prefix).with_name(".venv-router") / "bin" / "smg"
START_S: Final = 60.0
WINDOW_TOKENS: Final = 160
WINDOW_S: Final = 60.0
"""This engine writes a few tokens a second: the default window is seconds of a hundred times more."""


class Stack(msgspec.Struct):
    """Where client, operator and probes find everything."""

    data: str  # the sidecar's data port
    admin: str
    router: str
    workers: tuple[str, ...]

    def metrics(self) -> dict[str, float]:
        """Our own, as a scrape sees them."""
        lines = httpx.get(f"{self.admin}/metrics", trust_env=False).text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def incidents(self) -> list[dict[str, Any]]:
        """The newest first."""
        answer = httpx.get(f"{self.admin}/api/incidents", trust_env=False).raise_for_status().json()
        return list(answer["incidents"])

    def flush(self) -> None:
        """Have the workers forget their prefixes: what was corrupted must not come back from the cache."""
        for worker in self.workers:
            httpx.post(f"{worker}/flush_cache?timeout=10", timeout=30, trust_env=False).raise_for_status()


@contextmanager
def stack(folder: Path, engines: Sequence[Engine], probe_socket: Path) -> Iterator[Stack]:
    """Router and sidecar in front of these engines."""
    router, admin, data = free_port(), free_port(), free_port()
    one = Stack(
        f"http://127.0.0.1:{data}",
        f"http://127.0.0.1:{admin}",
        f"http://127.0.0.1:{router}",
        tuple(engine.url for engine in engines),
    )
    config = {
        "router": one.router,
        "data_port": data,
        "admin_port": admin,
        "policy": "protect",
        "routes": [{"name": "slow", "window_tokens": WINDOW_TOKENS, "window_s": WINDOW_S}],
        "store": f"sqlite+aiosqlite:///{folder / 'specguard.db'}",
        "telemetry": {
            "socket": str(probe_socket),
            "scrape_s": 2,
            "logs": [{"path": str(engine.log), "worker": engine.url} for engine in engines],
        },
        "offline": [],
    }
    file = folder / "sidecar.yaml"
    file.write_text(json.dumps(config))
    smg = [
        *(str(SMG), "launch", "--worker-urls", *one.workers, "--policy", "consistent_hashing"),
        *("--host", "127.0.0.1", "--port", str(router), "--disable-retries", "--disable-tokenizer-autoload"),
        *("--worker-startup-check-interval", "1"),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())),
    ]
    serve = [str(Path(sys.executable).with_name("specguard")), "serve", "--config", str(file)]
    with (
        process(smg, folder / "smg.log", f"{one.router}/readiness"),
        process(serve, folder / "sidecar.log", f"{one.admin}/readyz"),
    ):
        _await(f"{one.router}/v1/models")
        yield one


@contextmanager
def process(command: Sequence[str], log: Path, ready: str) -> Iterator[None]:
    told = {name: value for name, value in os.environ.items() if not name.startswith("SPECGUARD_")}
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=told, start_new_session=True
        )
    try:
        _await(ready)
        yield
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _await(url: str) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5, trust_env=False).is_success:
                return
        time.sleep(0.5)
    raise TimeoutError(f"no answer within {START_S} s: {url}")
