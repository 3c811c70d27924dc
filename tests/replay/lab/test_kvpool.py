"""A pool hands out whole slots, never a page twice, and leaves nothing behind."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lab.kvpool import (
    NOBODY,
    KVPool,
    PageTable,
    PoolExhaustedError,
    PoolShape,
    Slot,
    make_memory,
    mark_of,
    pages_for,
)
from replay.lab.model import PAGE_TOKENS, Shape

TARGET = Shape(layers=2, width=8, heads=2, hidden=8, previous_at=0, second_at=1, second_width=0)
DRAFT = Shape(layers=1, width=4, heads=1, hidden=4, previous_at=0, second_at=0, second_width=0)
SHAPE = PoolShape(TARGET, DRAFT, pages=6)


def test_a_slot_has_room_for_every_token() -> None:
    assert [pages_for(tokens) for tokens in (1, PAGE_TOKENS, PAGE_TOKENS + 1)] == [1, 1, 2]
    assert PageTable(4).alloc(PAGE_TOKENS + 1).capacity_tokens == 2 * PAGE_TOKENS


def test_exhaustion_takes_nothing() -> None:
    table = PageTable(3)
    table.alloc(2 * PAGE_TOKENS)
    with pytest.raises(PoolExhaustedError, match="2 pages wanted, 1 of 3 free"):
        table.alloc(2 * PAGE_TOKENS)
    assert table.free_pages == 1


def test_fresh_pages_come_in_order_and_freed_ones_come_back_last_first_as_they_were() -> None:
    table = PageTable(6)
    first, second = table.alloc(32), table.alloc(48)
    assert (first.pages, second.pages) == ((0, 1), (2, 3, 4))
    table.free(first)
    table.free(second)
    assert table.alloc(48) == second
    assert table.alloc(32) == first
    assert table.alloc(16).pages == (5,)


def test_a_slot_freed_twice_is_our_bug_and_changes_nothing() -> None:
    table = PageTable(2)
    slot = table.alloc(1)
    table.free(slot)
    with pytest.raises(ValueError, match="freed twice"):
        table.free(slot)
    assert table.free_pages == 2


@given(st.lists(st.integers(1, 90), max_size=30))
def test_no_page_has_two_owners(sizes: list[int]) -> None:
    table, held = PageTable(16), list[Slot]()
    for tokens in sizes:
        try:
            held.append(table.alloc(tokens))
        except PoolExhaustedError:
            table.free(held.pop(0)) if held else None
        owned = [page for slot in held for page in slot.pages]
        assert len(owned) == len(set(owned))
        assert table.free_pages == 16 - len(owned)
    for slot in held:
        table.free(slot)
    assert table.usage == 0


def test_two_mappings_of_one_memory_see_the_same_bytes() -> None:
    fd = make_memory(SHAPE, "test")
    ours, theirs = KVPool(fd, SHAPE), KVPool(fd, SHAPE)
    os.close(fd)
    ours.target[1, 0, 3] = 7
    ours.draft[0, 1, 5] = 9
    ours.writers[2, 5] = mark_of(2**63 - 1)
    assert np.all(theirs.target[1, 0, 3] == 7)
    assert np.all(theirs.draft[0, 1, 5] == 9)
    assert theirs.target.sum() == 7 * PAGE_TOKENS * 2 * 4
    assert theirs.writers[2, 5] == 2**63
    assert (theirs.writers == NOBODY).sum() == theirs.writers.size - 1
    assert theirs.draft.sum() == 9 * PAGE_TOKENS * 4


def test_a_pool_leaves_no_name_in_shared_memory() -> None:
    before = set(os.listdir("/dev/shm"))  # noqa: PTH208, S108 (looking, not writing)
    fd = make_memory(SHAPE, "test")
    pool = KVPool(fd, SHAPE)
    assert set(os.listdir("/dev/shm")) <= before  # noqa: PTH208, S108
    assert "6 pages" in repr(pool)
    os.close(fd)
