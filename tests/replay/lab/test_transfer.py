"""A transfer copies exactly the prompt's pages, layer by layer, and stops where it is told."""

import asyncio
import os

import numpy as np
import pytest

from replay.lab.kvpool import NOBODY, KVPool, PoolShape, make_memory, mark_of
from replay.lab.model import Shape
from replay.lab.transfer import Gate, Route, Side, open_gate, write_prompt

TARGET = Shape(layers=3, width=8, heads=2, hidden=8, previous_at=0, second_at=1, second_width=0)
DRAFT = Shape(layers=1, width=4, heads=1, hidden=4, previous_at=0, second_at=0, second_width=0)


def pool(fill: float | None = None, pages: int = 8) -> KVPool:
    shape = PoolShape(TARGET, DRAFT, pages)
    fd = make_memory(shape, "test")
    made = KVPool(fd, shape)
    os.close(fd)
    if fill is None:
        rng = np.random.default_rng(1)
        made.target[:] = rng.normal(size=made.target.shape)
        made.draft[:] = rng.normal(size=made.draft.shape)
    else:
        made.target[:] = made.draft[:] = fill
    return made


ROOM = 41


def route(source: Side, destination: Side, gate: Gate = open_gate) -> Route:
    return Route(ROOM, source, destination, gate)


async def test_the_prompts_pages_arrive_and_no_other_page_changes() -> None:
    source, destination = pool(), pool(0.0)
    written = await write_prompt(
        route(Side(source, (2, 5, 7)), Side(destination, (6, 1, 0, 3))), prompt_tokens=20
    )
    for ours, theirs in ((source.target, destination.target), (source.draft, destination.draft)):
        np.testing.assert_array_equal(theirs[:, :, [6, 1]], ours[:, :, [2, 5]])
        assert not theirs[:, :, [0, 2, 3, 4, 5, 7]].any()
    assert written == 2 * 16 * 2 * (3 * 8 + 4) * 4
    assert (destination.writers[:, [6, 1]] == mark_of(ROOM)).all()
    assert (destination.writers[:, [0, 2, 3, 4, 5, 7]] == NOBODY).all()


async def test_a_cancelled_transfer_stops_between_two_layers() -> None:
    source, destination, reached = pool(), pool(0.0), asyncio.Event()

    async def hold_layer_2(_room: int, model: str, layer: int) -> None:
        if (model, layer) == ("target", 2):
            reached.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(
            write_prompt(route(Side(source, (0,)), Side(destination, (0,)), hold_layer_2), 16), name="held"
        )
        await reached.wait()
        writing.cancel()
    assert destination.target[:2].any(axis=(1, 2, 3, 4, 5)).all()
    assert not destination.target[2].any()
    assert not destination.draft.any()
    assert (destination.writers[:2, 0] == mark_of(ROOM)).all()
    assert (destination.writers[2:] == NOBODY).all()


async def test_a_write_on_the_wire_lands_though_its_transfer_is_cancelled_and_the_next_does_not() -> None:
    source, destination, on_the_wire, landing = pool(), pool(0.0), asyncio.Event(), asyncio.Event()

    async def slow(_room: int, model: str, layer: int) -> None:
        if (model, layer) == ("target", 1):
            on_the_wire.set()
            await landing.wait()

    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(
            write_prompt(Route(ROOM, Side(source, (0,)), Side(destination, (0,)), flight=slow), 16),
            name="slow",
        )
        await on_the_wire.wait()
        for _ in range(3):
            writing.cancel()
            await asyncio.sleep(0)
        assert not writing.done()
        assert not destination.target[1].any()
        landing.set()
    assert writing.cancelled()
    np.testing.assert_array_equal(destination.target[:2, :, 0], source.target[:2, :, 0])
    assert not destination.target[2].any()
    assert not destination.draft.any()


async def test_too_few_pages_are_refused_before_the_first_write() -> None:
    source, destination = pool(), pool(0.0)
    with pytest.raises(ValueError, match="2 pages to copy"):
        await write_prompt(route(Side(source, (0, 1)), Side(destination, (0,))), 17)
    assert not destination.target.any()
