"""A table of fingerprints of a fixed size: who holds a k-gram.

A slot is one 64-bit number, so that two threads may meet in it and still see it whole:

    tag 32 bits | number 30 | spoken 1 | common 1        number, spoken and common together: the holder

The low bits of a fingerprint choose a bucket of four slots, its high 32 are the tag: another fingerprint is
taken for this one once in a thousand million lookups. `number` is the request that held the gram last, and,
as requests are numbered in order, its age. `spoken`: it stood in an answer, not in a prompt. `common`: two
families hold it, so that it speaks against nobody; its number is COMMON_LEAD too high, as boilerplate is
worth remembering long after the request that brought it.

A full bucket gives up the slot with the lowest number. New grams of one batch that want the same slot are
settled in passes; a bucket wanted by more of them than it has slots keeps four. Two threads that put at once
may lose a gram to each other.

Cost: 0.1 us a gram to look up or to place, in bulk (most of it memory that has left the cache).
"""

from typing import Final

import numpy as np

from service.core.kgrams import Flags, Hashes, Places

WAYS: Final = 4
COMMON: Final = 1
SPOKEN: Final = 2
COMMON_LEAD: Final = 1 << 16
NUMBER_MAX: Final = (1 << 30) - COMMON_LEAD - 1

_HELD: Final = np.uint64(0xFFFFFFFF)
_TAG: Final = np.uint64(0xFFFFFFFF << 32)
_FLAG_BITS: Final = 2
_COMMON: Final = np.uint64(COMMON)


def holder(number: int, *, spoken: bool = False, common: bool = False) -> int:
    """As a slot says it."""
    return (number + COMMON_LEAD * common) << _FLAG_BITS | SPOKEN * spoken | COMMON * common


def number_of(held: int) -> int:
    return held >> _FLAG_BITS


def numbers_of(held: Hashes) -> Hashes:
    """The numbers of these holders; meaningless where they are common."""
    numbers: Hashes = held >> np.uint64(_FLAG_BITS)
    return numbers


def is_common(held: Hashes) -> Flags:
    flags: Flags = held & _COMMON != 0
    return flags


class SlotTable:
    """The table."""

    __slots__ = ("_buckets", "_mask", "slots")

    def __init__(self, bits: int) -> None:
        """2 ** bits slots of 8 bytes."""
        self.slots: Hashes = np.zeros(1 << bits, np.uint64)
        self._buckets = self.slots.reshape(-1, WAYS)
        self._mask = np.uint64(len(self._buckets) - 1)

    def __repr__(self) -> str:
        return f"<SlotTable {len(self.slots)} slots>"

    def held(self, grams: Hashes) -> Hashes:
        """Who holds each of these grams; 0 for nobody."""
        found, tags = self._buckets.take(self._bucket(grams), axis=0), grams & _TAG
        held = np.zeros(len(grams), np.uint64)
        for way in range(WAYS):
            slot = found[:, way] ^ tags  # the holder alone, where the tag is the gram's
            np.copyto(held, slot, where=slot <= _HELD)
        return held

    def put(self, grams: Hashes, holders: int | Hashes) -> None:
        """Let these grams be held so (by one for all, or one for each), whoever held them."""
        slots = (grams & _TAG) | np.asarray(holders, np.uint64)
        for _ in range(WAYS):
            places = self._places(grams)
            self.slots[places] = slots
            lost = (self.slots.take(places) ^ slots) > _HELD
            if not lost.any():
                return
            grams, slots = grams[lost], slots[lost]

    def used(self) -> float:
        """Share of slots in use."""
        return float(np.count_nonzero(self.slots)) / len(self.slots)

    def _bucket(self, grams: Hashes) -> Places:
        return (grams & self._mask).astype(np.int64)

    def _places(self, grams: Hashes) -> Places:
        """The slot that each of these grams is in, or else the one it may have."""
        buckets = self._bucket(grams)
        found, tags = self._buckets.take(buckets, axis=0), grams & _TAG
        places: Places = buckets * WAYS + (found & _HELD).argmin(axis=1)
        for way in range(WAYS):
            np.copyto(places, buckets * WAYS + way, where=(found[:, way] ^ tags) <= _HELD)
        return places
