"""The load curve of the transfer race: corrupted answers per 10,000 by load, with and without the fix.

    idle .30, light .55, busy .70, peak .85     share of time that a prefill worker is busy; unfixed
    fixed .85                                   the same load as peak; abort notification, fence, acknowledged
                                                release

One decode and four prefill workers in processes of their own. Time runs 160 times as fast as in production:
decode's waiting timeout of 300 s becomes 1.9 s, a prefill of 5 s with one in twelve ten times as long becomes
33 ms, an answer of a minute becomes 0.35 s. What is not scaled is the race itself: a timeout that only long
queues reach, pages that change hands last freed first, and a writer that has not been told.

Each arm is cut into blocks, the blocks of all arms are shuffled, and each is simulated as well, from the same
plan; the simulator's figure is a mean over runs whose requests are some milliseconds off, because which
request a late write hits hangs on milliseconds. A rate is per answered request; its interval is exact.

Corruption comes in clusters, one full queue makes several: exact intervals tell how well the rate of this
plan is known, not how much another seed's plan would differ.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import numpy as np

from replay.lab.bank import PROMPT_PAGES, SLOT_PAGES, Bank, make_bank
from replay.lab.journal import Journal
from replay.lab.load import Load, Plan, PrefillTime, plan
from replay.lab.racing import Block, Driver, Tally, session
from replay.lab.rates import p_above
from replay.lab.serve import DEFAULT_PAGES, Lab, LabError, Options
from replay.lab.simulate import Engine, Outcome, simulate
from replay.lab.slot import Race
from replay.lab.worker import Transfer
from replay.stats.exact import PER, Rate

TIME_SCALE = 160
"""Seconds of production in one of the lab."""

WAITING_S = 300 / TIME_SCALE
"""SGLANG_DISAGGREGATION_WAITING_TIMEOUT; with the loads below its peak is 50 to 150 per 10,000."""

FULL_WAITING_S = 380 / TIME_SCALE
"""For the long run: rarer, 6 to 50 per 10,000 at peak, as it was in production."""

PREFILL_S = 1 / 30
STEP_S = 0.07
LAYER_S = 0.002
LAYERS = 5
PREFILL_WORKERS = 4
PROMPTS = 64
DEFAULT_SEED = 10
"""A plan of the middle, chosen by simulation: light, busy and peak are expected at 0, 25 and 80 per 10,000.
Over seeds 0 to 23 the means are 1, 19 and 107, the standard deviations 3, 27 and 41."""

JITTER_S = 0.01
REPLICAS = 10
"""Simulations of a block, and how far apart their requests are."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One point of the curve."""

    name: str
    race: Race
    utilisation: float
    requests: int
    blocks: int


ARMS = (
    Arm("idle", Race.UNFIXED, 0.30, 4_100, 2),
    Arm("light", Race.UNFIXED, 0.55, 4_100, 2),
    Arm("busy", Race.UNFIXED, 0.70, 4_200, 6),
    Arm("peak", Race.UNFIXED, 0.85, 4_600, 10),
    Arm("fixed", Race.FIXED, 0.85, 4_300, 10),
)
"""More than 4,000 requests are answered in each; the rest time out."""

FULL_REQUESTS = 31_000
FULL_BLOCKS = 30


@dataclass(frozen=True, slots=True)
class Settings:
    """One curve."""

    arms: tuple[Arm, ...] = ARMS
    waiting_s: float = WAITING_S
    seed: int = DEFAULT_SEED
    transfer: Transfer = "shm"

    def digest(self) -> str:
        """Name these settings: what was measured under others is not resumed."""
        text = msgspec.json.encode([asdict(self), PREFILL_S, STEP_S, LAYER_S, PREFILL_WORKERS, PROMPTS])
        return hashlib.sha256(text).hexdigest()[:16]


def full(seed: int) -> Settings:
    """Return the settings of the long run."""
    arms = tuple(replace(arm, requests=FULL_REQUESTS, blocks=FULL_BLOCKS) for arm in ARMS)
    return Settings(arms, FULL_WAITING_S, seed)


def blocks(settings: Settings) -> list[tuple[str, Block]]:
    """Cut the arms into blocks and shuffle them. Rooms tell block and request apart."""
    cut = [
        (arm.name, block_of(settings, arm, number, at))
        for at, arm in enumerate(settings.arms)
        for number in range(arm.blocks)
    ]
    order = np.random.default_rng(settings.seed).permutation(len(cut))
    return [cut[at] for at in order]


def block_of(settings: Settings, arm: Arm, number: int, at: int) -> Block:
    load = Load(
        requests=arm.requests * (number + 1) // arm.blocks - arm.requests * number // arm.blocks,
        utilisation=arm.utilisation,
        prefill_workers=PREFILL_WORKERS,
        prefill=PrefillTime(PREFILL_S, seed=settings.seed),
        prompts=PROMPTS,
        first_room=(at << 48) + (number << 32),
        part=number,
        parts=arm.blocks,
    )
    return Block(f"{arm.name}-{number}", arm.race, load, settings.waiting_s, LAYER_S)


def engine_of(block: Block, bank: Bank) -> Engine:
    """Return the simulated site that a block runs on."""
    return Engine(
        race=block.race,
        waiting_s=block.waiting_s,
        step_s=STEP_S,
        steps=bank.steps,
        slot_pages=SLOT_PAGES,
        prompt_pages=PROMPT_PAGES,
        pages=DEFAULT_PAGES,
        transfer_s=LAYERS * block.layer_s,
    )


def expect(block: Block, bank: Bank, replicas: int = REPLICAS) -> float:
    """Return the corrupted answers that the simulator expects of a block."""
    engine = engine_of(block, bank)
    drawn = plan(block.load)
    runs = [_jittered(drawn, replica) for replica in range(replicas)]
    return sum(corrupted(run, simulate(run, engine), bank) for run in runs) / replicas


def corrupted(run: Plan, outcome: Outcome, bank: Bank) -> int:
    """Count the simulated victims whose answer changes."""
    prompt = run.prompt.tolist()
    return len(
        {
            hit.victim
            for hit in outcome.hits
            if bank.changes(prompt[hit.victim], prompt[hit.writer], hit.steps_done)
        }
    )


def _jittered(run: Plan, replica: int) -> Plan:
    """Move every request by up to `JITTER_S`; the first replica is the plan itself."""
    if replica == 0:
        return run
    late = run.at_s + np.random.default_rng(replica).random(len(run.at_s)) * JITTER_S
    order = np.argsort(late, kind="stable")
    return replace(
        run,
        at_s=late[order],
        worker=run.worker[order],
        prompt=run.prompt[order],
        room=run.room[order],
        service_s=run.service_s[order],
    )


class Point(msgspec.Struct, kw_only=True):
    """One arm, measured and simulated."""

    name: str
    race: Race
    utilisation: float
    rate_per_s: float
    tally: Tally
    per_10k: float
    low_per_10k: float
    high_per_10k: float
    simulated_per_10k: float
    simulator_inside: bool


class Curve(msgspec.Struct, kw_only=True):
    """The whole result; the first five names are a promise to scripts."""

    idle_per_10k: float
    peak_per_10k: float
    fixed_per_10k: float
    p_peak_above_idle: float
    requests: int
    p_peak_above_fixed: float
    simulator_inside: bool
    unexplained: int
    seconds: float
    seed: int
    waiting_s: float
    transfer: Transfer
    points: list[Point]

    @property
    def held(self) -> bool:
        """Whether the lab did what it is for: the race under load only, and none with the fix."""
        return self.p_peak_above_idle < P_SHOWN and self.fixed_per_10k == 0 and self.unexplained == 0


P_SHOWN = 1e-3
"""Below this a difference is called shown."""


async def measure(settings: Settings, journal: Journal, say: Callable[[str], None]) -> None:
    """Run the blocks that the journal does not have."""
    bank = make_bank(PROMPTS, settings.seed)
    left = [(arm, block) for arm, block in blocks(settings) if block.name not in journal.done]
    if not left:
        return
    options = Options(prefill=PREFILL_WORKERS, decode=1, step_ms=STEP_S * 1e3, transfer=settings.transfer)
    async with Lab(options) as lab, session() as http:
        driver = Driver(lab, bank, http)
        for number, (_, block) in enumerate(left, 1):
            tally = await driver.run(block)
            journal.add(block.name, tally)
            say(_told(number, len(left), block, tally))


def _told(number: int, blocks_left: int, block: Block, tally: Tally) -> str:
    return (
        f"{number}/{blocks_left} {block.name}: {tally.answered} answered, {tally.timed_out} timed out, "
        f"{tally.late_writes} late writes, {tally.corrupted} corrupted, {tally.seconds:.0f} s"
    )


def judge(settings: Settings, journal: Journal, seconds: float) -> Curve:
    """Sum the blocks up and compare the arms."""
    bank = make_bank(PROMPTS, settings.seed)
    tallies = {arm.name: Tally() for arm in settings.arms}
    expected = dict.fromkeys(tallies, 0.0)
    for arm, block in blocks(settings):
        tallies[arm].add(journal.done[block.name])
        expected[arm] += expect(block, bank)
    rates = {name: _rate(tally) for name, tally in tallies.items()}
    points = [_point(arm, settings, tallies[arm.name], expected[arm.name]) for arm in settings.arms]
    return Curve(
        idle_per_10k=_rounded(rates["idle"].per_10k),
        peak_per_10k=_rounded(rates["peak"].per_10k),
        fixed_per_10k=_rounded(rates["fixed"].per_10k),
        p_peak_above_idle=p_above(rates["peak"], rates["idle"]),
        requests=sum(tally.sent for tally in tallies.values()),
        p_peak_above_fixed=p_above(rates["peak"], rates["fixed"]),
        simulator_inside=all(point.simulator_inside for point in points),
        unexplained=sum(tally.unexplained for tally in tallies.values()),
        seconds=round(seconds, 1),
        seed=settings.seed,
        waiting_s=settings.waiting_s,
        transfer=settings.transfer,
        points=points,
    )


def _point(arm: Arm, settings: Settings, tally: Tally, expected: float) -> Point:
    rate = _rate(tally)
    low, high = rate.interval_per_10k()
    simulated = expected / tally.answered * PER
    load = block_of(settings, arm, 0, 0).load
    return Point(
        name=arm.name,
        race=arm.race,
        utilisation=arm.utilisation,
        rate_per_s=_rounded(load.rate_per_s),
        tally=tally,
        per_10k=_rounded(rate.per_10k),
        low_per_10k=_rounded(low),
        high_per_10k=_rounded(high),
        simulated_per_10k=_rounded(simulated),
        simulator_inside=low <= simulated <= high,
    )


def _rate(tally: Tally) -> Rate:
    if not tally.answered:
        raise LabError("not one request was answered")
    return Rate(tally.corrupted, tally.answered)


def _rounded(value: float) -> float:
    return round(value, 2)


def run(settings: Settings, state: Path | None, say: Callable[[str], None]) -> Curve:
    """Measure a curve, or the rest of one, and judge it."""
    began = monotonic()
    journal = Journal(state, settings.digest())
    before = sum(tally.seconds for tally in journal.done.values())
    asyncio.run(measure(settings, journal, say))
    return judge(settings, journal, before + monotonic() - began)


def table(curve: Curve) -> Sequence[str]:
    """Tell the curve in lines for people."""
    head = f"{'':<6} {'race':<8} {'load':>5} {'req/s':>6} {'answered':>9} {'timeouts':>8} {'late':>5}"
    rows = [
        f"{point.name:<6} {point.race:<8} {point.utilisation:>5.2f} {point.rate_per_s:>6.1f} "
        f"{point.tally.answered:>9} {point.tally.timed_out:>8} {point.tally.late_writes:>5} "
        f"{point.tally.corrupted:>9} {point.per_10k:>8.1f} "
        f"{f'{point.low_per_10k:.1f} - {point.high_per_10k:.1f}':>14} {point.simulated_per_10k:>9.1f}"
        for point in curve.points
    ]
    tail = [
        f"peak above idle: p = {curve.p_peak_above_idle:.1e}; above fixed: {curve.p_peak_above_fixed:.1e}",
        f"{curve.requests} requests, {curve.unexplained} unexplained, {curve.seconds:.0f} s",
    ]
    return [f"{head} {'corrupted':>9} {'per 10k':>8} {'95 %':>14} {'simulated':>9}", *rows, *tail]


def as_data(curve: Curve) -> dict[str, Any]:
    """Return the curve as plain data."""
    data: dict[str, Any] = msgspec.to_builtins(curve)
    return data
