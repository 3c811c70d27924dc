"""The lab as a whole: start the workers, wait until they answer, and end them without a trace.

    async with Lab(Options(prefill=2, decode=2, fault="nan", fault_rate=0.2)) as lab:
        lab.prefill[0].url, lab.prefill[0].bootstrap_port, lab.decode[0].url

The supervisor binds every port and makes every pool before a worker exists, so ports are known at once,
nobody races for them, and a worker that is killed leaves neither a port nor memory behind. Each worker
holds the end of a pipe as its lifeline; see `replay.lab.worker`.

Cost: about 1.5 s to start two and two workers on two cores; a pool of 1024 pages is 72 MiB, touched pages
only.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec

from replay.lab.bootstrap import Timeouts
from replay.lab.decode import DRAFTERS, Pace
from replay.lab.faults import DEFAULT_ONSET_TOKENS, DEFAULT_RATE, FaultPlan
from replay.lab.hicache import Mode as CacheMode
from replay.lab.intake import CONTEXT_TOKENS
from replay.lab.kvpool import PoolShape, make_memory
from replay.lab.model import WeightsError
from replay.lab.speculation import load_models, pages_needed
from replay.lab.worker import Mode, Spec, Transfer

HOST = "127.0.0.1"
"""The lab speaks without authentication and lets anybody corrupt it: it never leaves the loopback."""

DEFAULT_PAGES = 1024
"""16384 tokens a worker: 16 requests that fill their context, or some 80 ordinary ones."""

MIN_PAGES = pages_needed(CONTEXT_TOKENS)
"""Below this a request that fills its context could never be admitted."""

START_S = 60.0
"""A worker that does not answer after this long is not going to."""

STOP_S = 5.0
"""After this long a worker that was asked to end is killed."""


class LabError(RuntimeError):
    """Ours: the lab could not be started or has broken."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to start."""

    prefill: int = 1
    decode: int = 2
    fault: str = "none"
    fault_rate: float = DEFAULT_RATE
    onset: tuple[int, int] = DEFAULT_ONSET_TOKENS
    seed: int = 0
    step_ms: float = 12.0
    port_base: int | None = None
    """First of consecutive ports: prefill workers, decode workers, bootstrap servers. None: free ones."""
    pages: int = DEFAULT_PAGES
    timeouts: Timeouts = field(default_factory=Timeouts)
    transfer: Transfer = "shm"
    prefix_cache: bool = False
    host_pages: int = 0
    """Pages of the host tier under each prefill pool; 0: none."""
    hicache: CacheMode = CacheMode.OFF
    drafter: str = "model"
    engine_log: bool = False
    """Workers write the engine's log lines, too."""
    log_path: Path | None = None
    """Where workers write what goes wrong; None: this process's standard error."""

    def __post_init__(self) -> None:
        """Refuse what no worker could serve, before any is started."""
        if self.prefill < 1 or self.decode < 1:
            raise LabError("the lab needs at least one prefill and one decode worker")
        if self.pages < MIN_PAGES:
            raise LabError(f"a pool of {self.pages} pages is too small: {MIN_PAGES} hold one full context")
        FaultPlan.parse(self.fault, rate=self.fault_rate, onset_tokens=self.onset, seed=self.seed)
        Pace(self.step_ms)
        if self.drafter not in DRAFTERS:
            raise LabError(f"unknown drafter {self.drafter!r}; there are {', '.join(DRAFTERS)}")
        if self.host_pages < 0 or (self.host_pages and not self.prefix_cache):
            raise LabError("a host tier has 0 pages or more, and needs the prefix cache")
        if self.hicache is not CacheMode.OFF and not self.host_pages:
            raise LabError(f"hicache {self.hicache} needs host pages")


@dataclass(slots=True)
class Endpoint:
    """One worker as the outside sees it."""

    name: str
    port: int
    bootstrap_port: int | None
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where it answers HTTP."""
        return f"http://{HOST}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        return self.process.poll() is None


class Lab:
    """Prefill and decode workers in processes of their own."""

    def __init__(self, options: Options) -> None:
        """Prepare; nothing is started before `start`."""
        self.options = options
        self.prefill: list[Endpoint] = []
        self.decode: list[Endpoint] = []
        self._memory: dict[str, int] = {}
        self._log: int | None = None

    def __repr__(self) -> str:
        """Show which workers live."""
        state = ", ".join(f"{one.name} {'up' if one.alive else 'gone'}" for one in self.workers)
        return f"<Lab {state or 'not started'}>"

    @property
    def workers(self) -> list[Endpoint]:
        """All workers, prefill first."""
        return [*self.prefill, *self.decode]

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    async def start(self) -> None:
        """Start every worker and return when all answer; a failure leaves nothing running."""
        try:
            self._spawn()
            await self._answering()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End every worker and give the memory back. Safe to call twice."""
        for worker in self.workers:
            if worker.process.stdin is not None:
                worker.process.stdin.close()
        for worker in self.workers:
            await asyncio.to_thread(_end, worker.process)
        self.prefill, self.decode = [], []
        for fd in self._memory.values():
            os.close(fd)
        self._memory = {}
        if self._log is not None:
            os.close(self._log)
            self._log = None

    async def control(self, **change: object) -> list[dict[str, Any]]:
        """Change faults or pace on every live decode worker: any of fault, rate, onset, seed, step_ms."""
        async with httpx.AsyncClient(trust_env=False) as client:
            answers = [
                await client.post(f"{worker.url}/lab/control", json=change)
                for worker in self.decode
                if worker.alive
            ]
        for answer in answers:
            if answer.is_error:
                raise LabError(f"control refused: {answer.text}")
        return [answer.json() for answer in answers]

    async def ledger(self, *, settle_s: float = 30.0) -> list[dict[str, Any]]:
        """Return every ledger line once no live decode worker has an audit pending, or after `settle_s`."""
        lines: list[dict[str, Any]] = []
        async with httpx.AsyncClient(trust_env=False) as client:
            with suppress(TimeoutError):
                async with asyncio.timeout(settle_s):
                    await self._settle(client)
            for worker in self.decode:
                if worker.alive:
                    text = (await client.get(f"{worker.url}/lab/ledger")).text
                    lines += [msgspec.json.decode(line) for line in text.splitlines()]
        return lines

    async def _settle(self, client: httpx.AsyncClient) -> None:
        for worker in self.decode:
            busy = worker.alive
            while busy:
                state = (await client.get(f"{worker.url}/lab/control")).json()
                busy = state["pending"] + state["live"] > 0
                await asyncio.sleep(0.05 if busy else 0)

    def _spawn(self) -> None:
        options = self.options
        if options.log_path is not None:
            self._log = os.open(options.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        shape = _pool_shape(options.pages)
        prefill = [f"prefill-{at}" for at in range(options.prefill)]
        decode = [f"decode-{at}" for at in range(options.decode)]
        self._memory = {name: make_memory(shape, name) for name in (*prefill, *decode)}
        port = _ports(options.port_base, len(prefill) + len(decode) + len(prefill))
        bound = [_bind(next_port) for next_port in port]
        try:
            sockets = dict(zip((*prefill, *decode), bound, strict=False))
            bootstraps = dict(zip(prefill, bound[len(sockets) :], strict=True))
            self.prefill = [
                self._launch("prefill", at, name, sockets[name], bootstraps[name])
                for at, name in enumerate(prefill)
            ]
            self.decode = [
                self._launch("decode", at, name, sockets[name], None) for at, name in enumerate(decode)
            ]
        finally:
            for listener in bound:
                listener.close()

    def _launch(
        self, mode: Mode, index: int, name: str, http: socket.socket, bootstrap: socket.socket | None
    ) -> Endpoint:
        options = self.options
        theirs = [peer for peer in self._memory if peer.startswith("decode")] if mode == "prefill" else []
        pools = {peer: self._memory[peer] for peer in (name, *theirs)}
        spec = Spec(
            mode=mode,
            name=name,
            index=index,
            pages=options.pages,
            http_fd=http.fileno(),
            pools=pools,
            bootstrap_fd=bootstrap.fileno() if bootstrap else None,
            fault=options.fault,
            fault_rate=options.fault_rate,
            onset=options.onset,
            seed=options.seed,
            step_ms=options.step_ms,
            timeouts=options.timeouts,
            transfer=options.transfer,
            prefix_cache=options.prefix_cache,
            host_pages=options.host_pages,
            hicache=options.hicache,
            drafter=options.drafter,
            engine_log=options.engine_log,
        )
        inherited = [spec.http_fd, *pools.values(), *([spec.bootstrap_fd] if spec.bootstrap_fd else [])]
        process = subprocess.Popen(
            [sys.executable, "-m", "replay.lab.worker", msgspec.json.encode(spec).decode()],
            stdin=subprocess.PIPE,
            stderr=self._log,
            pass_fds=inherited,
            start_new_session=True,
            env=_environment(),
        )
        bootstrap_port = _port(bootstrap) if bootstrap else None
        return Endpoint(name, _port(http), bootstrap_port, process)

    async def _answering(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=START_S) as client:
            for worker in self.workers:
                try:
                    (await client.get(f"{worker.url}/health_generate")).raise_for_status()
                except httpx.HTTPError as error:
                    raise LabError(self._why(worker)) from error

    def _why(self, worker: Endpoint) -> str:
        log = self.options.log_path
        where = f"see {log}" if log else "its message is above"
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(STOP_S)
            return f"{worker.name} ended with status {worker.process.returncode} at start; {where}"
        return f"{worker.name} does not answer on port {worker.port}; {where}"


def _pool_shape(pages: int) -> PoolShape:
    """Return the shape of every pool; a broken weights file shows here, before any worker exists."""
    try:
        target, draft = load_models()
    except WeightsError as error:
        raise LabError(str(error)) from error
    return PoolShape(target.shape, draft.shape, pages)


def _environment() -> dict[str, str]:
    """One thread for matrices this small: a second costs more than it gives, and there are many workers."""
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH")) if part)
    return {**os.environ, **single, "PYTHONPATH": path}


def _ports(base: int | None, count: int) -> list[int]:
    return [0] * count if base is None else list(range(base, base + count))


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise LabError(f"port {port} on {HOST} cannot be used: {error.strerror}") from error
    return listener


def _port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that has been asked to end; kill it if it does not."""
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(options: Options, say: Callable[[str], None] = print) -> int:
    """Serve until Ctrl-C, SIGTERM or the end of the last worker; return the exit status."""
    return asyncio.run(_run(options, say))


async def _run(options: Options, say: Callable[[str], None]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Lab(options) as lab:
        for line in describe(lab):
            say(line)
        return await _watch(lab, stop, say)


def describe(lab: Lab) -> list[str]:
    """Say where the workers are, what faults are planned, and how a router is put in front."""
    lines = [f"{worker.name:<10} {worker.url}  bootstrap {worker.bootstrap_port}" for worker in lab.prefill]
    lines += [f"{worker.name:<10} {worker.url}  pid {worker.process.pid}" for worker in lab.decode]
    pairs = " ".join(f"--prefill {worker.url} {worker.bootstrap_port}" for worker in lab.prefill)
    decode = " ".join(f"--decode {worker.url}" for worker in lab.decode)
    options = lab.options
    plan = f"{options.fault}, rate {options.fault_rate:g}" if options.fault != "none" else "none"
    policies = "--prefill-policy round_robin --decode-policy consistent_hashing --disable-retries"
    # Unless told, smg listens on all addresses, its metrics too.
    listen = "--host 127.0.0.1 --port 30000 --prometheus-host 127.0.0.1 --prometheus-port 29000"
    router = (
        f"smg launch {listen} --pd-disaggregation {pairs} {decode} {policies} --disable-tokenizer-autoload"
    )
    return [*lines, f"faults     {plan}", f"router     {router}"]


async def _watch(lab: Lab, stop: asyncio.Event, say: Callable[[str], None]) -> int:
    """Report each worker that goes; the others serve on."""
    gone: set[str] = set()
    while len(gone) < len(lab.workers):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await stop.wait()
                return 0
        for worker in lab.workers:
            if not worker.alive and worker.name not in gone:
                gone.add(worker.name)
                say(f"{worker.name} ended with status {worker.process.returncode}")
    return 1
