"""The table keeps what it is told until it is full, and then forgets the oldest first."""

import numpy as np
import pytest

from service.core.kgrams import Hashes
from service.core.slots import (
    COMMON_LEAD,
    NUMBER_MAX,
    SPOKEN,
    WAYS,
    SlotTable,
    holder,
    is_common,
    number_of,
    numbers_of,
)


def some(count: int, seed: int = 1) -> Hashes:
    drawn: Hashes = np.random.default_rng(seed).integers(1, 2**63, count).astype(np.uint64)
    return drawn


def in_one_bucket(count: int, start: int = 1) -> Hashes:
    """Fingerprints with equal low bits."""
    return (np.arange(start, start + count, dtype=np.uint64) << np.uint64(40)) | np.uint64(5)


def test_what_was_put_is_held_and_nothing_else() -> None:
    table, grams = SlotTable(12), some(500)
    table.put(grams, holder(7))
    assert (table.held(grams) == holder(7)).mean() > 0.99
    assert not table.held(some(2000, seed=2)).any()
    assert table.used() == pytest.approx(500 / 4096, abs=0.01)


def test_a_gram_put_again_changes_hands() -> None:
    table, grams = SlotTable(12), some(100)
    table.put(grams, holder(7, spoken=True))
    table.put(grams, holder(8))
    assert set(table.held(grams).tolist()) == {holder(8)}
    assert table.used() == pytest.approx(100 / 4096)


def test_each_gram_may_have_a_holder_of_its_own() -> None:
    table, grams = SlotTable(12), some(50)
    holders = np.array([holder(number) for number in range(1, 51)], np.uint64)
    table.put(grams, holders)
    assert table.held(grams).tolist() == holders.tolist()


def test_a_full_bucket_forgets_the_oldest() -> None:
    table = SlotTable(8)
    for number, gram in enumerate(in_one_bucket(WAYS + 2), 1):
        table.put(np.array([gram], np.uint64), holder(number))
    assert [number_of(held) for held in table.held(in_one_bucket(WAYS + 2)).tolist()] == [0, 0, 3, 4, 5, 6]


def test_what_is_common_outlives_many_requests_but_not_all() -> None:
    table, common = SlotTable(8), in_one_bucket(1)
    table.put(common, holder(1, common=True))
    table.put(in_one_bucket(8, start=2), np.arange(100, 108, dtype=np.uint64) << np.uint64(2))
    assert is_common(table.held(common)).all()
    for number in range(8):
        table.put(in_one_bucket(1, start=20 + number), holder(COMMON_LEAD + 2 + number))
    assert not table.held(common).any()


def test_grams_of_one_batch_that_want_one_bucket_all_find_a_place() -> None:
    table = SlotTable(8)
    table.put(in_one_bucket(WAYS), holder(9))
    assert set(table.held(in_one_bucket(WAYS)).tolist()) == {holder(9)}


def test_a_holder_says_number_and_flags() -> None:
    assert number_of(holder(NUMBER_MAX, spoken=True)) == NUMBER_MAX
    assert holder(3, spoken=True) & SPOKEN
    assert numbers_of(np.array([holder(3), holder(4, spoken=True)], np.uint64)).tolist() == [3, 4]
    assert is_common(np.array([holder(3), holder(NUMBER_MAX, common=True)], np.uint64)).tolist() == [
        False,
        True,
    ]
    assert holder(NUMBER_MAX, spoken=True, common=True) < 2**32
