"""The proof in ten minutes: the same traffic at two loads, without the fence and with it, and the knob named.

    traffic    a request log in SGLang's form, imported; the recorded answers are the right ones. A copy
               without its wording is made, too, and its proof told; the lab knows 512 words and no others
    unfixed    idle against peak, the pages of a given-up request free at once     LOAD-DEPENDENT is right
    fixed      the same plan with abort notification and fence                     NOT LOAD-DEPENDENT is right
    bisect     the peak, unfixed, and beside it arms that turn one knob each       the fence is right

Each is a plan in a file, a run of it against lab and router by the very client that users run, and the judge
on the files: nothing here knows what is going to come out. Idle needs 7 s a block, the peak 3, and there
are 2 between any two; all three parts take nine minutes on two cores.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from replay.bench.cpu import machine_busy_ns
from replay.bisect import Bisected, bisect
from replay.control import LEAD_S
from replay.desensitise import Desensitiser
from replay.importers import Source, import_trace, sniff
from replay.judge import Judged, judge
from replay.judging.verdict import Outcome
from replay.lab.slot import Race
from replay.plan import Arm, Contrast, PlanHeader, Send, write_plan
from replay.planning.make import Wishes, make
from replay.proving.stage import (
    BACKLOG_S,
    HOT,
    IDLE,
    LONG_WAITING_S,
    PEAK,
    WAITING_S,
    Stage,
    rate_per_s,
    write_log,
)
from replay.report import report
from replay.run import run_plan
from replay.runner import Options
from replay.trace import read_trace, write_trace
from service.core.recorded import Rules

MARGIN_PER_10K: Final = 80.0
"""1,000 requests an arm have a power of 90 % for it."""

INCIDENT_S: Final = 1.0
"""One full queue gives up several requests in a row; an answer takes a second and a half."""

LATE_S: Final = 0.25
"""An eighth of the queue in question. Client, router and lab share two cores here, and stalls happen."""

LOOK_S: Final = 1.0
CROWDED_SHARE: Final = 0.3
"""Client, router and lab need more than half of two cores at the peak."""

ERRORS: Final = 0.95
"""Waiting timeouts are what this is about: the run goes on through them."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    rounds: int = 8  # dealt blocks can give p = 2^-8, and 2^-7 times five questions is below 5 % still
    requests: int = 1_200  # an arm
    pause_s: float = 2.2
    seed: int = 10


class Traffic(NamedTuple):
    """What is replayed."""

    trace: Path
    format: str
    safe: bool  # the copy without wording holds its proof


class Part(msgspec.Struct, frozen=True):
    """One verdict, as the last line tells it."""

    verdict: Outcome
    p: float
    per_10k: float | None
    idle_per_10k: float | None
    requests: int


class Named(msgspec.Struct, frozen=True):
    """What the bisection named."""

    knob: str | None
    role: str
    p: float


class Shown(msgspec.Struct, frozen=True):
    """The whole demo."""

    unfixed: Part
    fixed: Part
    bisect: Named
    imported: str  # the format that the traffic came in
    desensitised: bool
    seconds: float

    @property
    def held(self) -> bool:
        """Whether the tool has said what is so."""
        right = (Outcome.LOAD_DEPENDENT, Outcome.NOT_LOAD_DEPENDENT, "fence")
        return (self.unfixed.verdict, self.fixed.verdict, self.bisect.knob) == right and self.desensitised


def run(
    home: Path, rules: Rules, size: Size, say: Callable[[str], None], seconds: Callable[[], float]
) -> Shown:
    """Run all three parts; plans, results and reports are left in `home`."""
    return asyncio.run(_run(home, rules, size, say, seconds))


async def _run(
    home: Path, rules: Rules, size: Size, say: Callable[[str], None], seconds: Callable[[], float]
) -> Shown:
    began = seconds()
    if warning := crowded(await _busy_share()):
        say(warning)
    traffic = _traffic(home, size, say)
    async with Stage(home / "lab.log") as stage:
        say(f"lab and router are up: {stage.target}")
        judged = {}
        for race in (Race.UNFIXED, Race.FIXED):
            await _play(stage, home, race, plan_of(traffic.trace, load_arms(race), size), say)
            judged[race] = await asyncio.to_thread(judge, *_files(home, race), rules)
            _write(home, race, judged[race])
            say(f"{race}: {judged[race].verdict.verdict}, {judged[race].verdict.why}")
        await _play(stage, home, "bisect", plan_of(traffic.trace, knob_arms(), size), say)
    named = bisect(*_files(home, "bisect"), rules)
    say(f"bisect: {named.why}")
    (home / "bisect.json").write_bytes(msgspec.json.encode(named))
    return Shown(
        unfixed=part_of(judged[Race.UNFIXED]),
        fixed=part_of(judged[Race.FIXED]),
        bisect=named_of(named),
        imported=traffic.format,
        desensitised=traffic.safe,
        seconds=round(seconds() - began, 1),
    )


async def _busy_share() -> float:
    """Share of the machine that is taken before anything of this is started."""
    before = machine_busy_ns()
    await asyncio.sleep(LOOK_S)
    return (machine_busy_ns() - before) / 1e9 / LOOK_S / (os.cpu_count() or 1)


def crowded(share: float) -> str:
    """A word beforehand; the verdict says it again, from what was measured."""
    if share < CROWDED_SHARE:
        return ""
    return f"other programs take {share:.0%} of this machine: the schedule will hardly be kept"


@dataclass(frozen=True, slots=True)
class Knobs:
    """Every knob of the lab, so that no arm inherits what another has turned."""

    race: Race = Race.UNFIXED
    backlog_s: float = 0.0
    waiting_s: float = WAITING_S
    drafter: str = "model"

    def arm(self, name: str, load: float) -> Arm:
        decode = {"race": self.race, "waiting_s": self.waiting_s, "drafter": self.drafter}
        in_front = self.backlog_s + LEAD_S if self.backlog_s else 0.0  # worked off until the block begins
        control = {"decode": decode, HOT: {"backlog_ms": in_front * 1e3}}
        return Arm(name=name, load=load, knobs={"control": control})


def load_arms(race: Race) -> tuple[Arm, ...]:
    """The same protocol at two loads."""
    calm, busy = Knobs(race), Knobs(race, BACKLOG_S)
    return calm.arm("idle", 1.0), busy.arm("peak", PEAK / IDLE)


def knob_arms() -> tuple[Arm, ...]:
    """One knob each, and the control that turns none; all unfixed and at the peak but for that knob."""
    control, load = Knobs(backlog_s=BACKLOG_S), PEAK / IDLE
    return (
        replace(control, race=Race.FIXED).arm("fence", load),
        replace(control, waiting_s=LONG_WAITING_S).arm("timeout", load),
        replace(control, drafter="ngram").arm("speculation", load),
        replace(control, backlog_s=0.0).arm("backlog", load),
        control.arm("concurrency", load / 2),
        control.arm("control", load),
    )


def part_of(found: Judged) -> Part:
    idle, peak = found.levels
    return Part(found.verdict.verdict, found.verdict.p, peak.per_10k, idle.per_10k, idle.trials + peak.trials)


def named_of(found: Bisected) -> Named:
    p = next((one.p_adjusted for one in found.findings if one.knob == found.knob), 1.0)
    return Named(found.knob, found.role, p)


def _traffic(home: Path, size: Size, say: Callable[[str], None]) -> Traffic:
    """Import the log; take the wording out of a copy."""
    log, trace = home / "requests.log", home / "traffic.trace"
    write_log(log, size.requests, size.seed)
    imported = import_trace(Source(log), sniff(log), trace)
    say(f"imported {imported.summary.rows} requests from {imported.format}")
    header, requests = read_trace(trace)
    masked = Desensitiser()
    write_trace(home / "desensitised.trace", masked.header(header), masked.requests(requests))
    proof = masked.proof
    say(f"desensitised: {proof.shingles_left} of {proof.shingles} pieces of wording left, lengths kept")
    return Traffic(trace, imported.format, proof.holds())


def plan_of(trace: Path, arms: tuple[Arm, ...], size: Size) -> tuple[PlanHeader, list[Send]]:
    """The first arm against the last."""
    header, requests = read_trace(trace)
    wishes = Wishes(
        arms=arms,
        contrast=Contrast(
            low=arms[0].name,
            high=arms[-1].name,
            event="wrong",
            margin_per_10k=MARGIN_PER_10K,
            incident_window_s=INCIDENT_S,
            late_s=LATE_S,
        ),
        rounds=size.rounds,
        rate_per_s=rate_per_s(IDLE),
        pause_s=size.pause_s,
        seed=size.seed,
    )
    return make(header, list(requests), wishes)


async def _play(
    stage: Stage, home: Path, name: str, made: tuple[PlanHeader, list[Send]], say: Callable[[str], None]
) -> None:
    """Run one part."""
    plan, results = _files(home, name)
    header = write_plan(plan, *made)
    say(f"{name}: {header.sends} requests in {len(header.blocks)} blocks, {header.duration_s:.0f} s")
    options = Options(
        target=stage.target,
        allow=("127.0.0.1",),
        error_share=ERRORS,
        controls=stage.controls,
        metrics=stage.metrics,
    )
    await run_plan(plan, results, options)


def _files(home: Path, name: str) -> tuple[Path, Path]:
    return home / f"{name}.plan", home / f"{name}.results"


def _write(home: Path, name: str, found: Judged) -> None:
    (home / f"{name}.json").write_bytes(msgspec.json.encode(found))
    (home / f"{name}.html").write_text(report(*_files(home, name), found), encoding="utf-8")
