"""Waiting for what comes when it comes: no test may ask how fast a machine is."""

import asyncio
from collections.abc import Callable
from typing import Final

STEADY_TURNS: Final = 60
"""Turns of the loop in which a count must not move; a stalled machine has none."""


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
