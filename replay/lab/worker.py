"""One worker process: `python -m replay.lab.worker SPEC`, started by `replay.lab.serve`.

The process inherits everything that has a name elsewhere: its listening sockets, the memory of its own
pool and, in a prefill worker, of every decode pool. Standard input is a lifeline: when the supervisor is
gone, however it went, the pipe ends and the worker stops. So no worker outlives its lab and no memory
outlives its workers. A loop that stands still ends its process; see `replay.lab.watchdog`.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Literal, NoReturn

import msgspec
import prometheus_client
import uvicorn
import uvloop

from replay.lab import watchdog
from replay.lab.api import Api, Worker
from replay.lab.bootstrap import BootstrapServer, Timeouts
from replay.lab.decode import DecodeWorker, Pace
from replay.lab.faults import FaultPlan
from replay.lab.hicache import Mode as CacheMode
from replay.lab.kvpool import KVPool, PoolShape
from replay.lab.loglines import EngineLog
from replay.lab.model import TinyLM, WeightsError
from replay.lab.mooncake import Mooncake, MooncakeError
from replay.lab.prefill import PrefillWorker
from replay.lab.scheduler import Generation
from replay.lab.speculation import load_models

KEEP_ALIVE_S = 75
"""Idle connections outlive a router's pool: the race between the two closing is not this lab's subject."""

Mode = Literal["prefill", "decode"]

Transfer = Literal["shm", "mooncake"]
"""How KV gets from prefill to decode: a copy into the shared memory, or Mooncake over TCP."""

GOODBYE_S = 1
"""Streams that are open at the end get this long to finish with an abort."""


class Spec(msgspec.Struct, frozen=True):
    """All that a worker is told. Descriptors are inherited ones."""

    mode: Mode
    name: str
    index: int
    pages: int
    http_fd: int
    pools: dict[str, int]
    bootstrap_fd: int | None = None
    fault: str = "none"
    fault_rate: float = 0.0
    onset: tuple[int, int] = (1, 1)
    seed: int = 0
    step_ms: float = 0.0
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)
    transfer: Transfer = "shm"
    prefix_cache: bool = False
    host_pages: int = 0
    hicache: CacheMode = CacheMode.OFF
    drafter: str = "model"
    engine_log: bool = False
    """Write the engine's log lines to standard error."""


class Server(uvicorn.Server):
    """A uvicorn that leaves signals to the supervisor's lifeline."""

    def stop(self) -> None:
        """Stop accepting and let open answers end."""
        self.should_exit = True


def main(arguments: list[str]) -> None:
    """Run one worker until its lifeline ends."""
    spec = msgspec.json.decode(arguments[1], type=Spec)
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # (the library has no types here)
    try:
        models = load_models()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work(spec, models))
    except (WeightsError, MooncakeError) as error:
        fail(f"{spec.name}: {error}")


def fail(text: str) -> NoReturn:
    """End with a message instead of a traceback."""
    sys.stderr.write(f"{text}\n")
    raise SystemExit(2)


async def work(spec: Spec, models: tuple[TinyLM, TinyLM]) -> None:
    """Serve until the lifeline ends, then take every task along."""
    shape = PoolShape(models[0].shape, models[1].shape, spec.pages)
    pools = {name: KVPool(fd, shape) for name, fd in spec.pools.items()}
    worker, engine = _build(spec, models, pools)
    http = socket.socket(fileno=spec.http_fd)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(engine(), name="engine")
            server = Server(worker_config(Api(worker, tasks, _bootstrap_port(spec))))
            lifeline = tasks.create_task(_lifeline(server, worker), name="lifeline")
            beat = tasks.create_task(watchdog.watch(), name="watchdog")
            await server.serve(sockets=[http])
            beat.cancel()
            watchdog.arm(watchdog.LAST_S)
            lifeline.cancel()
            running.cancel()
            worker.live.abort("", _cancel, abort_all=True)
    finally:
        watchdog.disarm()
        http.close()


def _build(
    spec: Spec, models: tuple[TinyLM, TinyLM], pools: dict[str, KVPool]
) -> tuple[Worker, Callable[[], Coroutine[None, None, None]]]:
    """Return the worker and what it runs beside the HTTP server."""
    log = EngineLog(_write_log if spec.engine_log else None)
    if spec.mode == "decode":
        decode = DecodeWorker(spec.name, spec.index, models, pools[spec.name], spec.timeouts)
        decode.follow(
            FaultPlan.parse(spec.fault, rate=spec.fault_rate, onset_tokens=spec.onset, seed=spec.seed)
        )
        decode.pace = Pace(spec.step_ms)
        decode.drafter = spec.drafter
        if spec.transfer == "mooncake":
            decode.handovers.mooncake = Mooncake(pools[spec.name])
        decode.log = log
        return decode, decode.run
    rooms = BootstrapServer(spec.timeouts)
    own = pools.pop(spec.name)
    prefill = PrefillWorker(models, own, pools, rooms)
    prefill.log = log
    if spec.transfer == "mooncake":
        prefill.mooncake = Mooncake(own)
    if spec.prefix_cache:
        prefill.use_cache(spec.host_pages, spec.hicache)
    return prefill, lambda: _serve_bootstrap(spec, rooms)


def _write_log(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


async def _serve_bootstrap(spec: Spec, rooms: BootstrapServer) -> None:
    listener = await asyncio.start_server(rooms.serve, sock=socket.socket(fileno=spec.bootstrap_fd))
    async with listener:
        await listener.serve_forever()


async def _lifeline(server: Server, worker: Worker) -> None:
    """Wait for the end of standard input; then end every stream and the server."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb"))
    await reader.read()
    worker.live.abort("", worker.abort, abort_all=True)
    server.stop()


def _bootstrap_port(spec: Spec) -> int | None:
    if spec.bootstrap_fd is None:
        return None
    with socket.socket(fileno=os.dup(spec.bootstrap_fd)) as listener:
        return int(listener.getsockname()[1])


def worker_config(app: Api) -> uvicorn.Config:
    """Return how a worker serves HTTP: no lifespan, no access log, SGLang's own server."""
    return uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        http="httptools",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GOODBYE_S,
    )


def _cancel(generation: Generation) -> None:
    if generation.task is not None:
        generation.task.cancel()


if __name__ == "__main__":
    main(sys.argv)
