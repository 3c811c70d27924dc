"""The processes of the gateway bench: the worker, smg in regular mode, and `specguard serve`."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx
import yaml

from replay.child import HOST, free_port, tether
from replay.lab.router import DEFAULT_BINARY

READY_S: Final = 30.0
STOP_S: Final = 10.0


class BenchError(RuntimeError):
    """A process of the bench is missing, does not start, or has ended."""


class Process:
    """One of our processes, up while the context is."""

    def __init__(self, name: str, command: Sequence[str], port: int, ready: str, log: Path) -> None:
        self.name = name
        self.port = port
        self._command = [*tether(), *command]
        self._ready = ready
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Process {self.name} on {self.port}>"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None or self._process.poll() is not None:
            raise BenchError(f"{self.name} has ended: {self.last_line()}")
        return self._process.pid

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + READY_S
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.__exit__(None, None, None)
                raise BenchError(f"{self.name} does not start: {self.last_line()}")
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_line(self) -> str:
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}{self._ready}", timeout=2, trust_env=False).is_success
        except httpx.HTTPError:
            return False


class Field:
    """Worker and proxies, up together."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            folder = Path(opening.enter_context(tempfile.TemporaryDirectory(prefix="specguard-bench-")))
            self.worker = opening.enter_context(worker(folder))
            self.smg = opening.enter_context(smg(self.worker.url, folder))
            self.admin_port = free_port()
            self.specguard = opening.enter_context(specguard(self.worker.url, folder, self.admin_port))
            self._stack = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def arrivals(self, name: str) -> None:
        """Switch how the worker spreads its chunks."""
        httpx.get(f"{self.worker.url}/arrivals/{name}", timeout=5, trust_env=False).raise_for_status()

    def verdicts(self) -> int:
        """What SpecGuard said against the streams so far; all of them are clean."""
        told = httpx.get(f"http://{HOST}:{self.admin_port}/metrics", timeout=5, trust_env=False).text
        lines = (line for line in told.splitlines() if line.startswith("specguard_verdicts_total"))
        return sum(round(float(line.rpartition(" ")[2])) for line in lines)


def worker(folder: Path) -> Process:
    port = free_port()
    command = [sys.executable, "-m", "replay.bench.mock_worker", str(port)]
    return Process("worker", command, port, "/health", folder / "worker.log")


def smg(worker_url: str, folder: Path, binary: Path = DEFAULT_BINARY) -> Process:
    """The router passing one worker's streams through."""
    if not binary.exists():
        raise BenchError(f"{binary} is missing: run `make setup`")
    port = free_port()
    command = [
        *(str(binary), "launch", "--host", HOST, "--port", str(port), "--worker-urls", worker_url),
        *("--policy", "round_robin", "--disable-tokenizer-autoload", "--worker-startup-check-interval", "1"),
        *("--prometheus-host", HOST, "--prometheus-port", str(free_port()), "--log-level", "error"),
    ]
    return Process("smg", command, port, "/readiness", folder / "smg.log")


def specguard(router_url: str, folder: Path, admin_port: int) -> Process:
    """The whole sidecar: detectors on, store and admin port as shipped; a client may ask for `protect`."""
    port = free_port()
    settings = {
        "router": router_url,
        "data_host": HOST,
        "data_port": port,
        "admin_host": HOST,
        "admin_port": admin_port,
        "store": f"sqlite+aiosqlite:///{folder / 'specguard.db'}",
        "policy": "observe",
        "allow_policy_header": ["protect"],
        "log_level": "warning",
    }
    file = folder / "specguard.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    binary = shutil.which("specguard", path=str(Path(sys.executable).parent))
    if binary is None:
        raise BenchError("the command specguard is missing: run `make setup`")
    return Process(
        "specguard", [binary, "serve", "--config", str(file)], port, "/v1/models", folder / "specguard.log"
    )
