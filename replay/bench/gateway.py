"""What a guarded stream costs, beside smg passing the same stream through: `make bench-gateway`.

    python -m replay.bench.gateway [--quick] [--rounds 3] [--seconds 20]

One run, interleaved: in each round every arm has its turn, the order reversed from round to round; 64
streams with a chunk each 5 ms, 20 s a turn, staggered and in lockstep. CPU is the scheduler's own count over
all threads and children of the proxy, divided by the chunks delivered; sojourn runs from the worker's write
to the client's read. What is measured is what users run: the whole `specguard serve` with all detectors on,
which asks for usage in every chunk and cuts it out again. `--quick` is a look of a minute and no result.
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from random import Random
from statistics import median
from time import monotonic_ns, perf_counter
from typing import Final

from replay.bench.cpu import busy_ns, machine_busy_ns
from replay.bench.figures import ARMS, LOCKSTEP, STAGGERED, Arm, Probe, Row, summary, table
from replay.bench.load import CREATED, END, request
from replay.bench.proxies import BenchError, Field, Process
from replay.child import HOST

STREAMS: Final = 64
PROBES: Final = 300
QUICK_SECONDS: Final = 6.0
LOAD_GRACE_S: Final = 60.0


def measure(field: Field, arm: Arm, arrivals: str, seconds: float, number: int) -> Row:
    """One arm's turn."""
    field.arrivals(arrivals)
    proxy: Process = getattr(field, arm.proxy)
    clock, before = Clock(field), busy_ns(proxy.pid)
    load = [sys.executable, "-m", "replay.bench.load", str(proxy.port), arm.path, str(STREAMS), str(seconds)]
    run = subprocess.run(
        [*load, *arm.options], capture_output=True, text=True, timeout=seconds + LOAD_GRACE_S, check=False
    )
    if run.returncode:
        raise BenchError(f"the load client failed on {arm.name}: {run.stderr.strip().splitlines()[-1:]}")
    told: dict[str, float] = json.loads(run.stdout)
    spent_us = (busy_ns(proxy.pid) - before) / 1e3
    return Row(number, arm.name, arrivals, spent_us / max(told["chunks"], 1), clock.others_share(), told)


class Clock:
    """How much of the machine others use meanwhile: on a busy one the figures say less."""

    def __init__(self, field: Field) -> None:
        self._pids = [one.pid for one in (field.worker, field.smg, field.specguard)]
        self._started = self._now()

    def others_share(self) -> float:
        wall, machine, ours = (
            after - before for before, after in zip(self._started, self._now(), strict=True)
        )
        return max(0.0, machine - ours) / (wall * (os.cpu_count() or 1))

    def _now(self) -> tuple[int, int, int]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)  # load clients
        ours = sum(map(busy_ns, self._pids)) + round((ended.ru_utime + ended.ru_stime) * 1e9)
        return monotonic_ns(), machine_busy_ns(), ours


def turns(arms: tuple[Arm, ...], rounds: int) -> Iterator[tuple[int, str, Arm]]:
    """Every round, both arrivals, every arm; the order of arms turns round each time."""
    for number in range(rounds):
        for arrivals in (STAGGERED, LOCKSTEP):
            order = arms if (number + (arrivals == LOCKSTEP)) % 2 == 0 else arms[::-1]
            yield from ((number, arrivals, arm) for arm in order if arrivals in arm.arrivals)


def probe(field: Field, count: int = PROBES) -> Probe:
    """First bytes of single requests, to the worker and through each proxy in turn."""
    wire = request("/v1/chat/completions", max_tokens=1)
    sockets = [
        socket.create_connection((HOST, one.port)) for one in (field.worker, field.smg, field.specguard)
    ]
    taken: list[list[float]] = [[], [], []]
    order, random = [0, 1, 2], Random(0)
    try:
        for _ in range(count):
            random.shuffle(
                order
            )  # who comes after whom costs: a proxy is still tidying up when the next is asked
            for place in order:
                taken[place].append(first_byte_ms(sockets[place], wire))
    finally:
        for connection in sockets:
            connection.close()
    return Probe(*(median(times) for times in taken))


def first_byte_ms(connection: socket.socket, wire: bytes) -> float:
    """One request; the time until the first chunk, and its response read to the end."""
    received, first = b"", 0.0
    asked = perf_counter()
    connection.sendall(wire)
    while not received.endswith(END):
        data = connection.recv(1 << 16)
        if not data:
            raise BenchError("a proxy closed the connection on a single request")
        received += data
        if not first and CREATED in received:
            first = perf_counter() - asked
    return first * 1e3


def run(*, rounds: int, seconds: float, arms: tuple[Arm, ...]) -> None:
    """Measure, tell on stderr how far it is, print table and last line."""
    rows: list[Row] = []
    planned = len(list(turns(arms, rounds)))
    with Field() as field:
        for number, arrivals, arm in turns(arms, rounds):
            row = measure(field, arm, arrivals, seconds, number)
            rows.append(row)
            if row.load["errors"]:
                _tell(f"{arm.name}: {row.load['errors']} streams went wrong, {row.load['broken']} broke off")
            _tell(
                f"[{len(rows)}/{planned}] {arm.name} {arrivals}: {row.cpu_us_per_chunk:.1f} us a chunk"
                f" (others used {row.others_share:.0%} of the machine)"
            )
        _tell("first bytes of single requests")
        field.arrivals(STAGGERED)
        first, verdicts = probe(field), field.verdicts()
    print(table(rows))
    print(json.dumps(summary(rows, first, verdicts)))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="replay.bench.gateway", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of short turns: a look, no result")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each turn")
    told = parser.parse_args(words)
    arms = tuple(arm for arm in ARMS if not (told.quick and arm.extra))
    try:
        run(
            rounds=1 if told.quick else told.rounds,
            seconds=QUICK_SECONDS if told.quick else told.seconds,
            arms=arms,
        )
    except BenchError as failed:
        _tell(str(failed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
