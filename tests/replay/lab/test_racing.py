"""The race in real processes: decided by a held write, told by the ledger, and broken off without a trace."""

import asyncio
import os
import signal
from dataclasses import replace
from itertools import count
from typing import Any

import httpx
import pytest

from replay.lab.bank import make_bank
from replay.lab.load import Load, PrefillTime
from replay.lab.racing import Block, Driver, session
from replay.lab.serve import HOST, Lab, LabError, Options
from replay.lab.slot import Race
from tests.replay.lab.labkit import prompt
from tests.replay.lab.test_serve import running

rooms = count(1000)


async def held_race(lab: Lab, race: Race) -> dict[str, dict[str, Any]]:
    """Make one write late: let it go when the next request decodes. Return both ledger lines by role."""
    decode, prefill = lab.decode[0].url, lab.prefill[0]
    late, next_one = next(rooms), next(rooms)
    async with httpx.AsyncClient(trust_env=False, timeout=50) as client, asyncio.TaskGroup() as tasks:

        async def control(url: str, **fields: object) -> None:
            (await client.post(f"{url}/lab/control", json=fields)).raise_for_status()

        def body(room: int, seed: int) -> dict[str, Any]:
            pair = {"bootstrap_host": HOST, "bootstrap_port": prefill.bootstrap_port, "bootstrap_room": room}
            sampling = {"max_new_tokens": 200, "ignore_eos": True}
            return {"rid": f"{room:032x}", "input_ids": prompt(seed), "sampling_params": sampling, **pair}

        await control(decode, race=race, waiting_s=0.1, step_ms=1000)
        await control(prefill.url, hold=[late])
        writer = tasks.create_task(client.post(f"{prefill.url}/generate", json=body(late, 1)))
        lost = await client.post(f"{decode}/generate", json=body(late, 1))
        assert lost.status_code == 500
        await control(decode, waiting_s=50)
        tasks.create_task(client.post(f"{prefill.url}/generate", json=body(next_one, 2)))
        asked = body(next_one, 2) | {"stream": True}
        async with client.stream("POST", f"{decode}/generate", json=asked) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            await control(prefill.url, release=[late])
            assert (await writer).status_code == (200 if race is Race.UNFIXED else 500)
            await control(decode, step_ms=1)
            async for _ in lines:
                pass
    ledger = {line["rid"]: line for line in await lab.ledger()}
    return {"late": ledger[f"{late:032x}"], "next": ledger[f"{next_one:032x}"]}


@pytest.mark.e2e
async def test_the_same_order_of_events_corrupts_without_the_fix_and_not_with_it() -> None:
    async with Lab(Options(prefill=1, decode=1, pages=128)) as lab:
        told = await held_race(lab, Race.UNFIXED)
        assert (told["next"]["kind"], told["next"]["answer_changed"]) == ("late_write", True)
        assert told["next"]["donor_rid"] == told["late"]["rid"]
        assert (told["late"]["release"], told["late"]["late_layers"]) == ("abandoned", 5)
        told = await held_race(lab, Race.FIXED)
        assert (told["next"]["kind"], told["next"]["applied"]) == ("none", False)
        assert (told["late"]["release"], told["late"]["late_layers"]) == ("drained", 0)


BLOCK = Block("small", Race.UNFIXED, Load(12, 0.5, 2, PrefillTime(0.004), 6), waiting_s=20.0)


@pytest.mark.e2e
async def test_a_block_counts_every_request_and_a_second_one_only_its_own() -> None:
    bank = make_bank(6, 1)
    async with Lab(Options(prefill=2, decode=1, step_ms=1)) as lab, session() as http:
        driver = Driver(lab, bank, http)
        for first_room in (0, 100):
            tally = await driver.run(replace(BLOCK, load=replace(BLOCK.load, first_room=first_room)))
            assert (tally.sent, tally.answered, tally.timed_out, tally.failed) == (12, 12, 0, 0)
            assert (tally.corrupted, tally.touched, tally.unexplained, tally.prefill_failed) == (0, 0, 0, 0)
        refused = replace(BLOCK, waiting_s=-1.0)
        with pytest.raises(LabError, match="decode-0 refused"):
            await driver.run(refused)


@pytest.mark.e2e
async def test_a_killed_worker_breaks_the_block_off_by_name_and_nothing_hangs() -> None:
    slow = replace(BLOCK, load=replace(BLOCK.load, prefill=PrefillTime(1.0), first_room=900))
    async with Lab(Options(prefill=2, decode=1, step_ms=1)) as lab, session() as http:
        pids = [worker.process.pid for worker in lab.workers]
        async with asyncio.TaskGroup() as tasks:
            block = tasks.create_task(broken_off(Driver(lab, make_bank(6, 1), http), slow))
            await asyncio.sleep(0.3)
            os.kill(lab.decode[0].process.pid, signal.SIGKILL)
        assert "block small broke off" in block.result()
        assert "decode-0 gone" in block.result()
    assert not any(running(pid) for pid in pids)


async def broken_off(driver: Driver, block: Block) -> str:
    with pytest.raises(LabError) as broken:
        await driver.run(block)
    return str(broken.value)
