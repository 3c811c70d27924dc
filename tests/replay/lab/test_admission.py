"""Pages are given in the order of asking, and none is lost when somebody leaves the line."""

import asyncio

import pytest

from replay.lab.admission import SlotQueue
from replay.lab.kvpool import PageTable, PoolExhaustedError, Slot


async def test_who_asks_first_is_served_first_even_where_less_would_fit() -> None:
    queue, order = SlotQueue(PageTable(4)), list[str]()
    held = await queue.take(48)

    async def ask(name: str, tokens: int) -> Slot:
        slot = await queue.take(tokens)
        order.append(name)
        return slot

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ask("large", 64))
        await asyncio.sleep(0)
        small = tasks.create_task(ask("small", 16))
        await asyncio.sleep(0)
        assert len(queue) == 2
        queue.give(held)
        await asyncio.sleep(0)
        queue.give(Slot((0, 1, 2, 3)))
        await small
    assert order == ["large", "small"]


async def test_whoever_leaves_the_line_does_not_hold_it_up() -> None:
    queue = SlotQueue(PageTable(2))
    held = await queue.take(16)
    async with asyncio.TaskGroup() as tasks:
        leaver = tasks.create_task(queue.take(32), name="leaver")
        await asyncio.sleep(0)
        stayer = tasks.create_task(queue.take(16), name="stayer")
        await asyncio.sleep(0)
        leaver.cancel()
        queue.give(await stayer)
    queue.give(held)
    assert queue.table.free_pages == 2


async def test_a_slot_granted_to_a_caller_who_just_left_goes_back() -> None:
    queue = SlotQueue(PageTable(1))
    held = await queue.take(16)
    async with asyncio.TaskGroup() as tasks:
        leaver = tasks.create_task(queue.take(16), name="leaver")
        await asyncio.sleep(0)
        queue.give(held)
        leaver.cancel()
    assert leaver.cancelled()
    assert queue.table.free_pages == 1


async def test_what_never_fits_is_refused_at_once() -> None:
    with pytest.raises(PoolExhaustedError, match="never fit into 2 pages"):
        await SlotQueue(PageTable(2)).take(33)
