"""A block of load on real processes: every request is counted, and a lab that breaks is named at once."""

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from replay.lab.bank import make_bank
from replay.lab.load import Load, PrefillTime
from replay.lab.racing import Block, Driver, session
from replay.lab.serve import Lab, LabError, Options
from replay.lab.slot import Race
from tests.replay.lab.test_serve import running

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
