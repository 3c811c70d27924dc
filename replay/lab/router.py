"""The real router in front of the lab: smg 1.13 in prefill-decode mode, as a process of ours.

    async with Router(lab, log_path) as router:
        router.url

Prefill workers are taken in turn; decode workers by consistent hashing, so that `x-smg-target-worker:
INDEX` pins one (round robin would hit the same decode worker twice in a row for more than half of all
retries). The router's own retries are off: what to do about a bad answer is the sidecar's decision. Its
ports are loopback ones.

The process is told to die with its parent (`setpriv --pdeathsig`), so a killed supervisor leaves no router
behind.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Self

import httpx

from replay.lab.serve import HOST, Lab

DEFAULT_BINARY = Path(sys.prefix).with_name(".venv-router") / "bin" / "smg"
"""`make setup` gives the router an environment of its own: two router wheels fight for the name `smg`."""

READY_S = 30.0
"""smg checks its workers every second at start and needs two good checks."""


class RouterError(RuntimeError):
    """The router's: it is missing, does not start, or does not see its workers."""


class Router:
    """One smg process."""

    def __init__(self, lab: Lab, log_path: Path, *, binary: Path = DEFAULT_BINARY, port: int = 0) -> None:
        """Prepare a router for a lab that runs; port 0 takes a free one."""
        self._lab = lab
        self._log_path = log_path
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port
        self.metrics_port = 0

    def __repr__(self) -> str:
        """Say where it is and whether it runs."""
        return f"<Router {self.url} {'up' if self.alive else 'down'}>"

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    @property
    def metrics_url(self) -> str:
        """Where its Prometheus endpoint is."""
        return f"http://{HOST}:{self.metrics_port}/metrics"

    @property
    def pid(self) -> int | None:
        """Its process, while it has one."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    async def start(self) -> None:
        """Start it and return once it sees every worker."""
        if not self._binary.exists():
            raise RouterError(f"{self._binary} is missing: run `make setup`")
        self.port, self.metrics_port = self.port or free_port(), free_port()
        self._process = self._spawn()
        try:
            await self._ready()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End it. Safe to call twice."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()  # asked politely it listens for 5 s more, for load balancers that we do not have
        await asyncio.to_thread(process.wait)

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._log_path.open("ab") as log:
            return subprocess.Popen(
                [*tether(), *self._arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "NO_COLOR": "1"},
            )

    def _arguments(self) -> list[str]:
        prefill = [
            part for one in self._lab.prefill for part in ("--prefill", one.url, str(one.bootstrap_port))
        ]
        decode = [part for one in self._lab.decode for part in ("--decode", one.url)]
        return [
            *(str(self._binary), "launch", "--pd-disaggregation", *prefill, *decode),
            *("--prefill-policy", "round_robin", "--decode-policy", "consistent_hashing"),
            *("--disable-retries", "--disable-tokenizer-autoload", "--worker-startup-check-interval", "1"),
            *("--host", HOST, "--port", str(self.port)),
            *("--prometheus-host", HOST, "--prometheus-port", str(self.metrics_port)),
        ]

    async def _ready(self) -> None:
        wanted, deadline = len(self._lab.workers), monotonic() + READY_S
        async with httpx.AsyncClient(trust_env=False, timeout=2) as client:
            while await self._healthy(client) < wanted:
                if not self.alive:
                    raise RouterError(f"the router ended at start; see {self._log_path}")
                if monotonic() > deadline:
                    raise RouterError(f"the router does not see all {wanted} workers; see {self._log_path}")
                await asyncio.sleep(0.1)

    async def _healthy(self, client: httpx.AsyncClient) -> int:
        try:
            answer = await client.get(f"{self.url}/readiness")
            return int(answer.json().get("healthy_workers", 0))
        except (httpx.HTTPError, ValueError):
            return 0


def tether() -> list[str]:
    """Return the command that makes a child die with this process; nothing where util-linux is missing."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
