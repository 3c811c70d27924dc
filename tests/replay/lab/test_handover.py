"""A slot that prefill may still write into comes back as its protocol says, and a write too late is known.

Every race here is decided by a held write, not by luck: the late one is let go when its victim is decoding.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from replay.lab.decode import LATE_WRITE, Pace
from replay.lab.intake import Submission
from replay.lab.prefill_control import Holds
from replay.lab.scheduler import Aborted, Generation
from replay.lab.slot import Race
from replay.lab.speculation import reference_answer
from tests.replay.lab.labkit import Pair, finished, prompt, running_pair
from tests.replay.lab.test_decode import settled, until

LONG = 160


@asynccontextmanager
async def racing(
    race: Race, *, waiting_s: float = 0.05, drain_s: float = 0.05
) -> AsyncIterator[tuple[Pair, Holds]]:
    async with running_pair() as pair:
        holds = Holds()
        pair.prefill.gate = holds.gate
        pair.decode.handovers.race = race
        timeouts = pair.decode.handovers.timeouts
        pair.decode.handovers.timeouts = replace(timeouts, waiting_s=waiting_s, drain_s=drain_s)
        pair.decode.pace = Pace(2)
        yield pair, holds


def room(asked: Submission) -> int:
    assert asked.bootstrap is not None
    return asked.bootstrap.room


async def late(pair: Pair, holds: Holds, seed: int = 1) -> tuple[Submission, Generation]:
    """Send a request whose write is held until decode has given it up; return it."""
    asked = pair.asked(prompt(seed), max_new_tokens=LONG)
    holds.hold(room(asked))
    writer, generation = pair.send(asked)
    await finished(generation)
    assert isinstance(generation.finish, Aborted)
    assert "timed out" in generation.finish.message
    return asked, writer


async def victim(pair: Pair, seed: int = 2) -> Generation:
    """A request that decodes for long, far enough that it has its own KV."""
    waiting = replace(pair.decode.handovers.timeouts, waiting_s=20)
    pair.decode.handovers.timeouts = waiting
    generation = pair.send(pair.asked(prompt(seed), max_new_tokens=LONG, ignore_eos=True))[1]
    await until(generation, 3)
    return generation


async def test_unfixed_a_late_write_lands_in_the_pages_of_whoever_has_them_and_the_ledger_knows() -> None:
    async with racing(Race.UNFIXED) as (pair, holds):
        asked, writer = await late(pair, holds)
        hit = await victim(pair)
        assert room(asked) in holds.waiting
        holds.release(room(asked))
        await finished(writer)
        await finished(hit)
        lines = {line["rid"]: line for line in await settled(pair)}
        assert pair.decode.handovers.late_writes == 1
    theirs, own = lines[hit.asked.rid], lines[asked.rid]
    assert (theirs["kind"], theirs["applied"], theirs["donor_rid"]) == (LATE_WRITE, True, asked.rid)
    assert theirs["answer_changed"] is True
    assert theirs["at_token"] <= theirs["first_changed_token"] + 5
    assert len(theirs["pages"]) == -(-len(asked.prompt) // 16)
    assert (own["release"], own["late_layers"], own["finished"]) == ("abandoned", 5, "error")


async def test_fixed_the_same_order_of_events_harms_nobody() -> None:
    async with racing(Race.FIXED) as (pair, holds):
        asked, writer = await late(pair, holds)
        unharmed = await victim(pair)
        holds.release(room(asked))
        await finished(writer)
        await finished(unharmed)
        lines = {line["rid"]: line for line in await settled(pair)}
        assert pair.decode.handovers.late_writes == 0
        assert pair.decode.slots.table.usage == 0
    clean = reference_answer(prompt(2), LONG)
    assert unharmed.output[: len(clean)] == clean
    assert lines[unharmed.asked.rid]["applied"] is False
    assert (lines[asked.rid]["release"], lines[asked.rid]["late_layers"]) == ("drained", 0)


@dataclass(frozen=True, slots=True)
class Wire:
    """A layer's write that has left and does not arrive before it is told to."""

    model: str
    layer: int
    left: asyncio.Event = field(default_factory=asyncio.Event)
    landing: asyncio.Event = field(default_factory=asyncio.Event)

    async def flight(self, _room: int, model: str, layer: int) -> None:
        if (model, layer) == (self.model, self.layer):
            self.left.set()
            await self.landing.wait()


@asynccontextmanager
async def lost_with_a_write_on_the_wire(pair: Pair, layer: int) -> AsyncIterator[tuple[Submission, Wire]]:
    """Abort a request while one of its layers is on the wire; at the end that arrives, whatever happens."""
    wire = Wire("target", layer)
    pair.prefill.flight = wire.flight
    asked = pair.asked(prompt(1))
    try:
        _, generation = pair.send(asked)
        await wire.left.wait()
        pair.prefill.flight = None
        pair.decode.abort(generation)
        await finished(generation)
        while not pair.decode.handovers.draining:  # noqa: ASYNC110 (the worker has no such event)
            await asyncio.sleep(0)
        yield asked, wire
    finally:
        wire.landing.set()


async def test_fixed_pages_stay_set_aside_while_a_write_is_on_the_wire() -> None:
    async with (
        racing(Race.FIXED, waiting_s=20) as (pair, _),
        lost_with_a_write_on_the_wire(pair, 2) as (asked, wire),
    ):
        held = pair.decode.slots.table.usage
        assert held > 0
        unharmed = await victim(pair)
        assert pair.decode.slots.table.usage > held
        assert pair.decode.handovers.draining == 1
        wire.landing.set()
        await finished(unharmed)
        lines = {line["rid"]: line for line in await settled(pair)}
    assert (lines[asked.rid]["release"], lines[asked.rid]["late_layers"]) == ("drained", 0)
    assert lines[unharmed.asked.rid]["applied"] is False


async def test_deferred_releases_anyway_after_its_timeout_and_the_window_is_in_ledger_and_metrics() -> None:
    async with racing(Race.DEFERRED, waiting_s=20, drain_s=0.1) as (pair, _):
        async with lost_with_a_write_on_the_wire(pair, 3) as (asked, wire):
            while pair.decode.handovers.draining:  # noqa: ASYNC110 (the worker has no such event)
                await asyncio.sleep(0.005)
            hit = await victim(pair)
            wire.landing.set()
            await finished(hit)
            lines = {line["rid"]: line for line in await settled(pair)}
        shown = pair.decode.metrics.render({}, 1).decode()
    own, theirs = lines[asked.rid], lines[hit.asked.rid]
    assert (own["release"], own["late_layers"]) == ("timeout", 1)
    assert 0.1 <= own["release_s"] < 10
    assert (theirs["kind"], theirs["donor_rid"]) == (LATE_WRITE, asked.rid)
    assert 'outcome="timeout",pp_rank="0",tp_rank="0"} 1.0' in shown
    assert "decode_deferred_kv_release_seconds_count" in shown


@pytest.mark.parametrize("race", Race)
async def test_under_every_protocol_nothing_is_left_behind(race: Race) -> None:
    async with racing(race) as (pair, holds):
        asked, writer = await late(pair, holds)
        holds.release(room(asked))
        await finished(writer)
        await settled(pair)
        assert pair.decode.slots.table.usage == 0
        assert pair.prefill.slots.table.usage == 0
        assert pair.decode.handovers.unsettled == pair.decode.handovers.draining == 0


@pytest.mark.parametrize("race", Race)
async def test_a_worker_that_ends_does_not_wait_for_last_words(race: Race) -> None:
    async with running_pair() as pair:
        holds = Holds()
        pair.prefill.gate = holds.gate
        pair.decode.handovers.race = race
        asked = pair.asked(prompt(1))
        holds.hold(room(asked))
        writer, generation = pair.send(asked)
        while room(asked) not in holds.waiting:  # noqa: ASYNC110 (the gate has no such event)
            await asyncio.sleep(0.001)
        pair.decode.abort(generation)
        await finished(generation)
        pair.prefill.abort(writer)


async def run_with_held_writes(seed: int) -> list[tuple[str, str | None, bool | None]]:
    """Requests one after the other; of some the write comes while the next one decodes."""
    rng = np.random.default_rng(seed)
    told = []
    async with racing(Race.UNFIXED, waiting_s=0.03) as (pair, holds):
        for number in range(3):
            pair.decode.handovers.timeouts = replace(pair.decode.handovers.timeouts, waiting_s=0.03)
            is_late = bool(rng.random() < 0.6)
            writer = None
            if is_late:
                asked, writer = await late(pair, holds, seed=int(rng.integers(100)))
            other = await victim(pair, seed=int(rng.integers(100)))
            if writer is not None:
                holds.release(room(asked))
                await finished(writer)
            await finished(other)
            lines = {line["rid"]: line for line in await settled(pair)}
            line = lines[other.asked.rid]
            told.append((f"{number} {line['kind']}", line["finished"], line["answer_changed"]))
    return told


async def test_a_seeded_run_has_the_same_victims_on_every_machine() -> None:
    told = await run_with_held_writes(5)
    assert told == [
        ("0 none", "length", None),
        ("1 late_write", "length", True),
        ("2 late_write", "length", True),
    ]
