"""The paged KV pool of one worker, in memory that other processes can write.

    target[layer, k|v, page, row, head, dim]   and   draft[...]   share one page table:
    page p of a request holds its tokens 16p .. 16p+15 in both models.

The pool lies in an anonymous memory file (`memfd_create`). The supervisor makes it and every worker
inherits the descriptor, so a prefill worker writes straight into the pool of a decode worker, and the
kernel takes the memory back when the last process is gone: there is no name that a killed worker could
leave behind in /dev/shm.

Beside the floats lie the marks, one word for each layer of either model and each page: the hand-over that
wrote there last (`writers`). No engine has them; they are how the lab knows for certain whose KV a request
has read, and nothing but the ledger looks at them.

Pages are handed out last freed first, as most allocators do, whole slots at a time: a slot of the same size
gets the very pages that were freed before it, in the same order. A request reserves all the pages that it
may ever need when it is admitted, so a running request never waits for one and nothing is ever retracted.
"""

import mmap
import os
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from replay.lab.model import PAGE_TOKENS, Floats, Shape

FLOAT_BYTES = 4
MARK_BYTES = 8

NOBODY = 0
"""The mark of a page that no hand-over has written."""

Marks = NDArray[np.uint64]

K, V = 0, 1
"""The second axis of a pool."""


class PoolExhaustedError(MemoryError):
    """No room for this slot now (`wanted` pages of `free`), or ever (`wanted` above the pool's size)."""


def pages_for(tokens: int) -> int:
    """Return how many pages hold that many tokens."""
    return -(-tokens // PAGE_TOKENS)


@dataclass(frozen=True, slots=True)
class PoolShape:
    """The two pools that share one page table."""

    target: Shape
    draft: Shape
    pages: int

    @property
    def target_axes(self) -> tuple[int, ...]:
        """Shape of the target pool: [layers, 2, pages, page_tokens, heads, head_dim]."""
        return _axes(self.target, self.pages)

    @property
    def draft_axes(self) -> tuple[int, ...]:
        """Shape of the draft pool, the same axes."""
        return _axes(self.draft, self.pages)

    @property
    def marks_axes(self) -> tuple[int, int]:
        """Shape of the marks: [target layers and then draft layers, pages]."""
        return (self.target.layers + self.draft.layers, self.pages)

    @property
    def floats(self) -> int:
        """Numbers in both pools together; each page has an even number, so the marks behind are aligned."""
        return prod(self.target_axes) + prod(self.draft_axes)

    @property
    def size_bytes(self) -> int:
        """Bytes of both pools and the marks."""
        return FLOAT_BYTES * self.floats + MARK_BYTES * prod(self.marks_axes)


def _axes(model: Shape, pages: int) -> tuple[int, ...]:
    return (model.layers, 2, pages, PAGE_TOKENS, model.heads, model.head_dim)


class KVPool:
    """Both pools of one worker, mapped into this process."""

    def __init__(self, fd: int, shape: PoolShape) -> None:
        """Map the memory file `fd`; the descriptor stays the caller's."""
        self.shape = shape
        self._map = mmap.mmap(fd, shape.size_bytes)
        floats = np.frombuffer(self._map, dtype=np.float32, count=shape.floats)
        marks = np.frombuffer(self._map, dtype=np.uint64, offset=FLOAT_BYTES * shape.floats)
        split = prod(shape.target_axes)
        self.target: Floats = floats[:split].reshape(shape.target_axes)
        self.draft: Floats = floats[split:].reshape(shape.draft_axes)
        self.writers: Marks = marks.reshape(shape.marks_axes)

    @property
    def address(self) -> int:
        """Where the pool begins in this process."""
        return int(self.target.ctypes.data)

    def __repr__(self) -> str:
        """Name size and shape."""
        return f"<KVPool {self.shape.pages} pages, {self.shape.size_bytes >> 20} MiB>"


def mark_of(room: int) -> np.uint64:
    """Return the mark that a hand-over leaves."""
    return np.uint64(room + 1)


def make_memory(shape: PoolShape, name: str) -> int:
    """Return a descriptor of new zeroed memory for a pool; untouched pages cost nothing."""
    fd = os.memfd_create(f"specguard-kv-{name}")
    os.ftruncate(fd, shape.size_bytes)
    return fd


@dataclass(frozen=True, slots=True)
class Slot:
    """The pages of one request, in the order of its tokens."""

    pages: tuple[int, ...]

    @property
    def capacity_tokens(self) -> int:
        """Tokens that fit."""
        return len(self.pages) * PAGE_TOKENS


class PageTable:
    """Which pages are free. Slots come out whole or not at all."""

    def __init__(self, pages: int) -> None:
        """Start with every page free."""
        self.pages = pages
        self._free = list(range(pages))[::-1]
        self._taken: set[int] = set()

    def __repr__(self) -> str:
        """Count both kinds."""
        return f"<PageTable {len(self._taken)} taken, {len(self._free)} free>"

    @property
    def free_pages(self) -> int:
        """Pages that no slot holds."""
        return len(self._free)

    @property
    def free_list(self) -> list[int]:
        """The free pages, in order."""
        return sorted(self._free)

    @property
    def usage(self) -> float:
        """Taken share of the pool, 0 to 1."""
        return len(self._taken) / self.pages

    def alloc(self, tokens: int) -> Slot:
        """Take the pages freed last for that many tokens."""
        wanted = pages_for(tokens)
        if wanted > len(self._free):
            raise PoolExhaustedError(f"{wanted} pages wanted, {len(self._free)} of {self.pages} free")
        pages = tuple(self._free.pop() for _ in range(wanted))
        self._taken.update(pages)
        return Slot(pages)

    def free(self, slot: Slot) -> None:
        """Give a slot back; giving it back twice is our own bug and raises."""
        if not self._taken.issuperset(slot.pages):
            raise ValueError(f"pages freed twice: {sorted(set(slot.pages) - self._taken)}")
        self._taken.difference_update(slot.pages)
        self._free.extend(reversed(slot.pages))
