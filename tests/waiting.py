"""Waiting for what comes when it comes: no test may ask how fast a machine is."""

import asyncio
from collections.abc import Callable
from typing import Final

STEADY_TURNS: Final = 60
"""Turns of the loop in which a count must not move; a stalled machine has none."""

FAREWELL_TURNS: Final = 30


async def until(holds: Callable[[], object]) -> None:
    """Wait for another thread's or task's doing; the test's own timeout is the limit."""
    while not holds():  # noqa: ASYNC110 - there is no event to wait for, only a count
        await asyncio.sleep(0.005)


async def steady(count: Callable[[], int]) -> int:
    """Wait until a count stands still, and return it."""
    before, turns = count(), 0
    while turns < STEADY_TURNS:
        await asyncio.sleep(0.005)
        now = count()
        before, turns = now, turns + 1 if now == before else 0
    return before


async def farewells() -> None:
    """Let transports that were closed, and those at their other ends, say goodbye in the loop's next turns.

    Turns and not time: a machine that stood still for the time of a sleep has made one turn in it.
    """
    for _ in range(FAREWELL_TURNS):
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
