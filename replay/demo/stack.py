"""Lab, router and sidecar: up together in this order, down together in the other, and nothing left behind."""

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from replay.demo.sidecar import Sidecar, SidecarError
from replay.lab.router import DEFAULT_BINARY, Router, RouterError
from replay.lab.serve import Lab, LabError
from replay.lab.serve import Options as LabOptions

WATCH_EVERY_S = 0.5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

SetupError = (LabError, RouterError, SidecarError)
"""What stops the demo before or while it runs, for want of something to run on."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where to listen; 0 is any free port."""

    router: int = 0
    data: int = 0
    admin: int = 0


class Stack:
    """Everything that the demo's clients talk through."""

    def __init__(
        self,
        lab: LabOptions,
        serve: Sequence[str],
        *,
        router_binary: Path = DEFAULT_BINARY,
        ports: Ports = Ports(),
    ) -> None:
        """Prepare; `serve` is the command line of the sidecar, less its settings."""
        self._lab_options = lab
        self._serve = serve
        self._binary = router_binary
        self._ports = ports
        self._open = AsyncExitStack()

    def __repr__(self) -> str:
        """Name what it is made of."""
        return f"<Stack {self._lab_options.prefill}+{self._lab_options.decode} workers>"

    async def __aenter__(self) -> Self:
        """Start everything, or nothing."""
        async with AsyncExitStack() as opening:
            self.folder = Path(opening.enter_context(tempfile.TemporaryDirectory(prefix="specguard-demo-")))
            self.lab = await opening.enter_async_context(Lab(self._lab_options))
            router = Router(
                self.lab, self.folder / "router.log", binary=self._binary, port=self._ports.router
            )
            self.router = await opening.enter_async_context(router)
            sidecar = Sidecar(
                self._serve,
                self.router.url,
                self.folder,
                data_port=self._ports.data,
                admin_port=self._ports.admin,
            )
            self.sidecar = await opening.enter_async_context(sidecar)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything."""
        await self._open.aclose()

    @property
    def pids(self) -> dict[str, list[int]]:
        """The processes by what they are."""
        return {
            "prefill": [one.process.pid for one in self.lab.prefill],
            "decode": [one.process.pid for one in self.lab.decode],
            "router": [self.router.pid] if self.router.pid else [],
            "sidecar": [self.sidecar.pid] if self.sidecar.pid else [],
        }

    def cpu_seconds(self) -> dict[str, float]:
        """CPU that each part has used since it started, and the clients (this process)."""
        used = {name: round(sum(map(_cpu_seconds, pids)), 2) for name, pids in self.pids.items()}
        return {**used, "clients": round(time.process_time(), 2)}

    async def watch(self) -> None:
        """Run until a process ends that should not; then say which."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            for worker in self.lab.workers:
                if not worker.alive:
                    raise LabError(f"{worker.name} ended with status {worker.process.returncode}")
            if not self.router.alive:
                raise RouterError("the router ended while it was needed")
            if not self.sidecar.alive:
                raise SidecarError("the sidecar ended while it was needed")

    def urls(self) -> list[str]:
        """Where everything is, a line each."""
        lab = [f"{one.name:<12} {one.url}" for one in self.lab.workers]
        control = [
            f"{one.name:<12} {one.url}/lab/control  {one.url}/lab/ledger?since=0" for one in self.lab.decode
        ]
        admin = self.sidecar.admin_url
        return [
            f"{'sidecar':<12} {self.sidecar.url}",
            f"{'admin':<12} {admin}/metrics  {admin}/api/incidents  {admin}/api/cases",
            f"{'router':<12} {self.router.url}",
            *lab,
            *control,
            f"{'files':<12} {self.folder}",
        ]


def _cpu_seconds(pid: int) -> float:
    """User and system time of one process; 0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
