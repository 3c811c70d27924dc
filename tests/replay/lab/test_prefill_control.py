"""A prefill worker's switches change whole or not at all, and its time is the load's, not the machine's."""

import asyncio
import json
from time import monotonic
from typing import Any

import pytest

from replay.lab.intake import RequestError
from replay.lab.load import PrefillTime
from replay.lab.prefill import Service
from replay.lab.prefill_control import MAX_HELD, Holds, PrefillControl
from replay.lab.scheduler import Phase
from tests.replay.lab.labkit import finished, prompt, running_pair


def change(switches: PrefillControl, **fields: object) -> dict[str, Any]:
    return switches.change(json.dumps(fields).encode())


async def test_what_is_named_changes_and_what_is_not_stays() -> None:
    async with running_pair() as pair:
        switches = PrefillControl(pair.prefill)
        change(switches, prefill_ms=40, seed=5, layer_ms=2, hangup_ms=100, hold=[9, 7])
        said = change(switches, speed=0.5, release=[9])
        assert said == switches.show()
        assert (said["prefill_ms"], said["seed"], said["speed"], said["hold"]) == (40, 5, 0.5, [7])
        assert (said["layer_ms"], said["hangup_ms"], said["tail_share"]) == (2, 100, 0.08)
        assert pair.prefill.service == Service(PrefillTime(0.04, seed=5), 0.5, 0.002, 0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"prefill_ms": -1},
        {"tail_share": 1.5},
        {"speed": -1},
        {"speed": 1e9},
        {"layer_ms": 61_000},
        {"hangup_ms": -1},
        {"backlog_ms": -5},
        {"backlog_ms": 1e12},
        {"haste": 1},
        {"hold": "all"},
    ],
)
async def test_a_change_that_makes_no_sense_changes_nothing(wrong: dict[str, object]) -> None:
    async with running_pair() as pair:
        switches = PrefillControl(pair.prefill)
        before = switches.show()
        with pytest.raises(RequestError):
            change(switches, **{"prefill_ms": 7, **wrong})
        assert switches.show() == before


async def test_prefills_take_the_time_that_the_load_draws_one_after_the_other() -> None:
    async with running_pair() as pair:
        time = PrefillTime(0.02, seed=1)
        pair.prefill.serve_at(Service(time))
        sent = [pair.send(pair.asked(prompt(seed), max_new_tokens=1)) for seed in range(4)]
        began, due = monotonic(), 0.0
        for first, _ in sent:
            pair_of = first.asked.bootstrap
            assert pair_of is not None
            due += time.of(pair_of.room)
            await finished(first)
            assert monotonic() - began >= due - 0.005


async def test_a_worker_at_speed_zero_stands_still_and_goes_on() -> None:
    async with running_pair() as pair:
        switches = PrefillControl(pair.prefill)
        change(switches, speed=0)
        first, second = pair.send(pair.asked(prompt(), max_new_tokens=1))
        while not switches.show()["queued"]:  # noqa: ASYNC110 (the worker has no such event)
            await asyncio.sleep(0.001)
        assert not first.finish
        change(switches, speed=1)
        await finished(first)
        await finished(second)


async def test_a_backlog_goes_by_before_the_next_prefill() -> None:
    async with running_pair() as pair:
        switches = PrefillControl(pair.prefill)
        began = monotonic()
        said = change(switches, backlog_ms=150)
        assert said["backlog_ms"] <= 150
        first, second = pair.send(pair.asked(prompt(), max_new_tokens=1))
        await finished(first)
        await finished(second)
        assert monotonic() - began > 0.145


async def test_a_backlog_that_comes_while_a_prefill_runs_is_not_lost() -> None:
    async with running_pair() as pair:
        switches = PrefillControl(pair.prefill)
        pair.prefill.serve_at(Service(PrefillTime(30.0)))
        long, _ = pair.send(pair.asked(prompt(1), max_new_tokens=1))
        while long.phase != Phase.RUNNING:  # noqa: ASYNC110 (the worker has no such event)
            await asyncio.sleep(0.001)
        assert change(switches, backlog_ms=150)["backlog_ms"] >= 150
        pair.prefill.serve_at(Service())
        began = monotonic()
        pair.prefill.abort(long)
        await pair.answer(pair.asked(prompt(2), max_new_tokens=1))
        assert monotonic() - began > 0.145
        assert switches.show()["backlog_ms"] == 0


async def test_a_prefill_that_is_aborted_gives_its_time_back() -> None:
    async with running_pair() as pair:
        pair.prefill.serve_at(Service(PrefillTime(30.0)))
        long, _ = pair.send(pair.asked(prompt(1), max_new_tokens=1))
        while long.phase != Phase.RUNNING:  # noqa: ASYNC110 (the worker has no such event)
            await asyncio.sleep(0.001)
        pair.prefill.serve_at(Service())
        pair.prefill.abort(long)
        async with asyncio.timeout(25):
            await pair.answer(pair.asked(prompt(2), max_new_tokens=1))


async def test_held_rooms_wait_and_others_do_not() -> None:
    holds, order = Holds(), list[int]()
    holds.hold(1)

    async def write(room: int) -> None:
        await holds.gate(room, "target", 0)
        order.append(room)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write(1))
        await tasks.create_task(write(2))
        assert holds.waiting == {1}
        holds.release(1)
        holds.release(1)
    assert order == [2, 1]
    assert not holds.waiting


def test_too_many_holds_are_refused() -> None:
    holds = Holds()
    for room in range(MAX_HELD):
        holds.hold(room)
    with pytest.raises(ValueError, match="are held"):
        holds.hold(MAX_HELD)
