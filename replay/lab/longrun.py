"""The curve without a lab: 10^8 simulated requests a load, where an event of 1 in 10^7 still shows.

The unfixed loads are scaled (`replay.lab.scale`), a million requests at a time and each million from its own
seed; the fixed one goes event by event, a share of the requests only, because there every abort acts on the
queues. How many of the requests that a late write hits answer something else is taken from the model, by the
verify steps that they had still to do.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

from replay.lab.bank import Bank, make_bank
from replay.lab.curve import PROMPTS, Arm, Settings, block_of, engine_of
from replay.lab.load import Load, plan
from replay.lab.scale import scale
from replay.lab.simulate import Engine, Hit, simulate
from replay.lab.slot import Race
from replay.stats.exact import PER

CHUNK_REQUESTS = 1_000_000
FIXED_SHARE = 100
"""Event by event is this much slower."""

SAMPLES = 40
"""Pairs of prompts for each number of steps left; nearly all change, so what they say is within 5 in 100."""


def long_run(settings: Settings, requests: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Simulate every arm; return its rates per 10,000."""
    began = monotonic()
    bank = make_bank(PROMPTS, settings.seed)
    points = []
    for arm in settings.arms:
        points.append(_point(settings, arm, bank, requests))
        say(f"{arm.name}: {points[-1]['per_10k']} corrupted per 10,000 answers")
    return {
        "simulated": True,
        "requests": sum(point["requests"] for point in points),
        "waiting_s": settings.waiting_s,
        "seed": settings.seed,
        "seconds": round(monotonic() - began, 1),
        "points": points,
    }


def _point(settings: Settings, arm: Arm, bank: Bank, requests: int) -> dict[str, Any]:
    if arm.race is not Race.UNFIXED:
        requests = max(1, requests // FIXED_SHARE)
    block = block_of(settings, arm, 0, 0)
    # a pool that never runs dry, as in production, where decode admits what it has room for
    engine = replace(engine_of(block, bank), pages=1 << 20)
    timed_out, left = 0, Counter[int]()
    for load in _chunks(block.load, requests):
        lost, hits = _run(load, engine)
        timed_out += lost
        left.update(hit.steps_left for hit in hits)
    changed = sum(count * bank.share_changed(steps, SAMPLES, settings.seed) for steps, count in left.items())
    answered = requests - timed_out
    return {
        "name": arm.name,
        "race": arm.race,
        "utilisation": arm.utilisation,
        "requests": requests,
        "timed_out_per_10k": round(timed_out / requests * PER, 4),
        "late_writes_on_live_requests": left.total(),
        "per_10k": round(changed / answered * PER, 4),
    }


def _run(load: Load, engine: Engine) -> tuple[int, tuple[Hit, ...]]:
    if engine.race is Race.UNFIXED:
        scaled = scale(plan(load), engine)
        return scaled.timed_out, scaled.hits
    outcome = simulate(plan(load), engine)
    return outcome.timed_out, tuple(outcome.hits)


def _chunks(load: Load, requests: int) -> Iterator[Load]:
    parts = -(-requests // CHUNK_REQUESTS)
    for part in range(parts):
        size = min(CHUNK_REQUESTS, requests - part * CHUNK_REQUESTS)
        prefill = replace(load.prefill, seed=load.prefill.seed + part)
        yield replace(load, requests=size, prefill=prefill, first_room=part << 32, part=part, parts=parts)
