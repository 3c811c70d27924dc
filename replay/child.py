"""A program that runs beside us as a process of ours: started, waited for, ended, never left behind.

It is told to die with its parent (`setpriv --pdeathsig`), so that a killed harness leaves no router and no
sidecar behind. What it says goes into a log file; the last line of it is in the error when it does not start.
"""

import asyncio
import os
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from time import monotonic
from typing import ClassVar, Final, Self

import httpx

HOST: Final = "127.0.0.1"

READY_S: Final = 30.0
"""A sidecar imports and migrates an empty database; smg wants two good checks of each worker."""

STOP_S: Final = 10.0

POLL_S: Final = 0.1


class Child(ABC):
    """One such process; as a context it is ready inside and gone after."""

    name: ClassVar[str]
    error: ClassVar[type[RuntimeError]]

    def __init__(self, log_path: Path) -> None:
        """Prepare; nothing runs yet."""
        self.log_path = log_path
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        """Say where it is and whether it runs."""
        return f"<{type(self).__name__} {self.url} {'up' if self.alive else 'down'}>"

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

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
        """Start it and return once it is ready.

        Raises the child's own error, with the log's last line, if it ends or is not ready in READY_S.
        """
        self.port = self.port or free_port()
        self._process = self._spawn(self.command())
        try:
            await self._wait_ready()
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

    @abstractmethod
    def command(self) -> list[str]:
        """Return its command line, or raise the child's error if there is none; the port is known by now."""

    @abstractmethod
    async def is_ready(self, client: httpx.AsyncClient) -> bool:
        """Ask it; `httpx.HTTPError` and `ValueError` count as not yet."""

    def environment(self) -> dict[str, str]:
        """Return its environment: ours."""
        return dict(os.environ)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                [*tether(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self.environment(),
            )

    async def _wait_ready(self) -> None:
        deadline = monotonic() + READY_S
        async with httpx.AsyncClient(trust_env=False, timeout=2) as client:
            while not await self._says_ready(client):
                if not self.alive:
                    raise self.error(f"the {self.name} ended at start: {self._last_line()}")
                if monotonic() > deadline:
                    raise self.error(
                        f"the {self.name} is not ready after {READY_S:.0f} s: {self._last_line()}"
                    )
                await asyncio.sleep(POLL_S)

    async def _says_ready(self, client: httpx.AsyncClient) -> bool:
        try:
            return await self.is_ready(client)
        except (httpx.HTTPError, ValueError):
            return False

    def _last_line(self) -> str:
        lines = self.log_path.read_text("utf-8", "replace").strip().splitlines()
        return f"{lines[-1] if lines else 'it said nothing'} (see {self.log_path})"


def tether() -> list[str]:
    """Return the command that makes a child die with this process; nothing where util-linux is missing."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
