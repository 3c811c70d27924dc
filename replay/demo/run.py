"""The demo from start to score: bring everything up, send, wait for the truth, count, take everything down.

The ledger is complete once every attempt has ended, withheld ones too, and every touched one has been
answered again; until then there is no score.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import msgspec
from rich.console import Console

from replay.demo import progress
from replay.demo.evidence import Evidence, collect
from replay.demo.score import Score, Spent, missed, tally
from replay.demo.stack import Ports, Stack
from replay.demo.traffic import Exchange, Limits, Traffic
from replay.demo.truth import Reckoning, reckon
from replay.lab.faults import FaultPlan, parse_mix
from replay.lab.ledger import Line
from replay.lab.router import DEFAULT_BINARY
from replay.lab.serve import Options as LabOptions

MIX = "nan:0.35,random:0.35,zero:0.1,swap:0.1,swap_both:0.1"
"""Mostly loud faults, for the bar needs forty requests that they corrupted; the quiet ones are reported."""

FAULT_RATE = 0.12
"""Of attempts, retries too: each draws its own fault. Life has 3 in 10,000 and a minute must show some, but
the sidecar's retries are bounded (10 % of streams, 3 a second): far more faults would measure that bound."""

SETTLE_S = 60.0
"""Withheld streams may run out for 30 s, then come their audits."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run. `serve` is the sidecar's command line, less its settings."""

    serve: Sequence[str]
    fault: str = "mix"
    fault_rate: float = FAULT_RATE
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    prefill: int = 2
    decode: int = 2
    ports: Ports = field(default_factory=Ports)
    router_binary: Path = DEFAULT_BINARY

    @property
    def lab(self) -> LabOptions:
        """What the lab is told."""
        return LabOptions(
            prefill=self.prefill,
            decode=self.decode,
            fault=self.plan.spec,
            fault_rate=self.fault_rate,
            seed=self.seed,
        )

    @property
    def plan(self) -> FaultPlan:
        """The faults; refuses what makes no sense."""
        spec = MIX if self.fault == "mix" else self.fault
        return FaultPlan(mix=parse_mix(spec), rate=self.fault_rate, seed=self.seed)


@dataclass(frozen=True, slots=True)
class Result:
    """The score and what it was counted from."""

    score: Score
    reckonings: list[Reckoning]


async def demo(
    options: Options, console: Console, afterwards: Callable[[Stack, Result], Awaitable[None]]
) -> Result:
    """Run it; `afterwards` has the score while everything still runs."""
    began = monotonic()
    console.print("starting lab, router and sidecar ...", highlight=False)
    async with Stack(
        options.lab, options.serve, router_binary=options.router_binary, ports=options.ports
    ) as stack:
        console.print(
            f"ready after {monotonic() - began:.1f} s; faults: {options.plan.spec}, "
            f"rate {options.fault_rate:g}, seed {options.seed}",
            highlight=False,
        )
        async with watched(stack):
            result = await _run(options, stack, console, began)
            await afterwards(stack, result)
    return result


@asynccontextmanager
async def watched(stack: Stack) -> AsyncIterator[None]:
    """Do something for as long as every process lives; the first that ends by itself ends it."""
    try:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(stack.watch(), name="watch")
            yield
            watching.cancel()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def _run(options: Options, stack: Stack, console: Console, began: float) -> Result:
    started = monotonic()
    traffic = Traffic(stack.sidecar.url, options.seed, options.limits)
    async with asyncio.TaskGroup() as tasks:
        showing = tasks.create_task(progress.show(console, traffic.tally, options.limits), name="progress")
        exchanges = await traffic.run()
        showing.cancel()
    traffic_s = monotonic() - started
    console.print("waiting for withheld streams to end and for the ledger ...", highlight=False)
    ledger = [msgspec.convert(line, Line) for line in await stack.lab.ledger(settle_s=SETTLE_S)]
    evidence = await collect(stack.sidecar.admin_url)
    spent = Spent(monotonic() - began, traffic_s, stack.cpu_seconds())
    return judge(exchanges, ledger, evidence, spent, options.plan)


def judge(
    exchanges: Sequence[Exchange], ledger: Sequence[Line], evidence: Evidence, spent: Spent, plan: FaultPlan
) -> Result:
    """Join, count, and hold against the bar."""
    reckonings = reckon(exchanges, ledger, evidence.seen)
    score = tally(reckonings, evidence.cases, spent)
    short = missed(score, (kind for kind, _ in plan.mix))
    return Result(msgspec.structs.replace(score, bar_missed=short), reckonings)


def write_trace(result: Result, file: Path) -> None:
    """One JSON line for each request: attempts, faults, verdicts, fate; no text."""
    with file.open("wb") as out:
        for one in result.reckonings:
            out.write(msgspec.json.encode(one) + b"\n")
