"""The sidecar under test: `specguard serve` as a process of ours, told everything by a file.

The caller says how the command is started, for replay knows the service over the wire only. Settings of
whoever runs the demo (SPECGUARD_*) are kept away from it: the demo is the same everywhere.
"""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Self

import httpx
import yaml

from replay.lab.router import free_port, tether
from replay.lab.serve import HOST, STOP_S

READY_S = 30.0
"""It imports, migrates an empty database and asks the router for its workers."""


GRACE_S = 2.0
"""For open streams once it is told to end: whoever read them has gone by then."""


class SidecarError(RuntimeError):
    """Ours: the sidecar does not start, or has ended."""


class Sidecar:
    """One `specguard serve`."""

    def __init__(
        self,
        command: Sequence[str],
        router_url: str,
        folder: Path,
        *,
        data_port: int = 0,
        admin_port: int = 0,
    ) -> None:
        """Prepare; port 0 takes a free one. Everything it writes goes into `folder`."""
        self._command = command
        self._router_url = router_url
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.data_port = data_port
        self.admin_port = admin_port

    def __repr__(self) -> str:
        """Say where it is and whether it runs."""
        return f"<Sidecar {self.url} {'up' if self.alive else 'down'}>"

    @property
    def url(self) -> str:
        """Where clients go."""
        return f"http://{HOST}:{self.data_port}"

    @property
    def admin_url(self) -> str:
        """Where incidents, health and metrics are."""
        return f"http://{HOST}:{self.admin_port}"

    @property
    def log_path(self) -> Path:
        """What it says."""
        return self._folder / "specguard.log"

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
        """Start it and return once it is ready."""
        self.data_port, self.admin_port = self.data_port or free_port(), self.admin_port or free_port()
        file = self._folder / "specguard.yaml"
        file.write_text(yaml.safe_dump(self._settings()), encoding="utf-8")
        self._process = self._spawn(file)
        try:
            await self._ready()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, *, within_s: float = STOP_S) -> None:
        """End it, by force if it takes longer than told. Safe to call twice."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _spawn(self, file: Path) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                [*tether(), *self._command, "--config", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=_environment(),
            )

    def _settings(self) -> dict[str, Any]:
        """Capture everything: these prompts are nobody's. Clients say which policy they want."""
        return {
            "router": self._router_url,
            "data_host": HOST,
            "data_port": self.data_port,
            "admin_host": HOST,
            "admin_port": self.admin_port,
            "store": f"sqlite+aiosqlite:///{self._folder / 'specguard.db'}",
            "capture": "full",
            "policy": "protect",
            "allow_policy_header": ["protect", "strict"],
            "timeouts": {"drain_s": GRACE_S},
        }

    async def _ready(self) -> None:
        deadline = monotonic() + READY_S
        async with httpx.AsyncClient(trust_env=False, timeout=2) as client:
            while not await self._is_ready(client):
                if not self.alive:
                    raise SidecarError(f"the sidecar ended at start: {_last_line(self.log_path)}")
                if monotonic() > deadline:
                    raise SidecarError(f"the sidecar is not ready: {_last_line(self.log_path)}")
                await asyncio.sleep(0.1)

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get(f"{self.admin_url}/readyz")).is_success
        except httpx.HTTPError:
            return False


def _environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SPECGUARD_")}
    return {**ours, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
