"""Where the KV of a LayerSplit prefill lies, and how its ranks tell each other what is where.

Geometry     rank r of R keeps the layers n with n mod R = r; new places are split in contiguous chunks
RankMemory   a rank's own KV, and two buffers of one layer that its peers write into
Board        signals between ranks over a mesh of sockets, one thread a peer; every wait has an end
"""

import mmap
import os
import socket
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from replay.lab.model import MAX_POSITIONS, PAGE_TOKENS, Floats, Shape

WAIT_S = 20.0
"""A peer that says nothing for so long is gone."""

BUFFERS = 2
"""Layers that a rank holds of others: the one that computes and the next."""

FLOAT_BYTES = 4
MESSAGE_BYTES = 24

PREFIX, KV, WANT, DONE = range(4)
"""Signals: a broadcast has arrived; new K and V have; a layer is waited for; a buffer is free again."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Who keeps which layer, and what that takes."""

    shape: Shape
    ranks: int
    pages: int

    def __post_init__(self) -> None:
        """Refuse a split in which some rank would keep nothing."""
        if not 1 <= self.ranks <= self.shape.layers:
            raise ValueError(f"{self.ranks} ranks cannot share {self.shape.layers} layers")
        if self.pages < 1:
            raise ValueError(f"{self.pages} pages hold nothing")

    def owner(self, layer: int) -> int:
        """Return the rank that keeps a layer."""
        return layer % self.ranks

    def layers_of(self, rank: int) -> range:
        """Return the layers that a rank keeps."""
        return range(rank, self.shape.layers, self.ranks)

    def kept_axes(self, rank: int) -> tuple[int, ...]:
        """Shape of a rank's own KV: [its layers, k or v, page, row, head, dim]."""
        shape = self.shape
        return (len(self.layers_of(rank)), 2, self.pages, PAGE_TOKENS, shape.heads, shape.head_dim)

    @property
    def buffer_axes(self) -> tuple[int, ...]:
        """Shape of a rank's buffers: [buffer, k or v, place, head, dim]."""
        return (BUFFERS, 2, MAX_POSITIONS, self.shape.heads, self.shape.head_dim)

    def kept_bytes(self, rank: int) -> int:
        """Bytes of the KV that a rank keeps."""
        return FLOAT_BYTES * prod(self.kept_axes(rank))

    @property
    def buffer_bytes(self) -> int:
        """Bytes of a rank's buffers."""
        return FLOAT_BYTES * prod(self.buffer_axes)

    def chunk(self, rank: int, start: int, end: int) -> range:
        """Return the new places that a rank computes."""
        edges = [start + (end - start) * at // self.ranks for at in range(self.ranks + 1)]
        return range(edges[rank], edges[rank + 1])


class RankMemory:
    """One rank's KV and buffers, mapped into this process."""

    def __init__(self, fd: int, geometry: Geometry, rank: int) -> None:
        """Map the memory file `fd`."""
        split = prod(geometry.kept_axes(rank))
        self._map = mmap.mmap(fd, geometry.kept_bytes(rank) + geometry.buffer_bytes)
        floats = np.frombuffer(self._map, dtype=np.float32)
        self.kept: Floats = floats[:split].reshape(geometry.kept_axes(rank))
        self.buffers: Floats = floats[split:].reshape(geometry.buffer_axes)

    def __repr__(self) -> str:
        """Say how much is kept."""
        return f"<RankMemory {self.kept.nbytes >> 10} KiB kept, {self.buffers.nbytes >> 10} KiB buffers>"


def make_rank_memory(geometry: Geometry, rank: int) -> int:
    """Return a descriptor of new zeroed memory for one rank."""
    fd = os.memfd_create(f"specguard-layersplit-{rank}")
    os.ftruncate(fd, geometry.kept_bytes(rank) + geometry.buffer_bytes)
    return fd


class PeerGoneError(RuntimeError):
    """Ours: a rank did not hear from another in time."""


class Board:
    """Signals between ranks: who has said what about which layer of which job."""

    def __init__(self, peers: dict[int, socket.socket], wait_s: float = WAIT_S) -> None:
        """Listen to every peer in a thread of its own."""
        self._peers = peers
        self._wait_s = wait_s
        self._said: defaultdict[tuple[int, int, int], set[int]] = defaultdict(set)
        self._gone: set[int] = set()
        self._news = threading.Condition()
        for rank in peers:
            threading.Thread(target=self._hear, args=(rank,), daemon=True, name=f"rank-{rank}").start()

    def __repr__(self) -> str:
        """Count the peers."""
        return f"<Board {len(self._peers)} peers>"

    def say(self, job: int, signal: int, layer: int, to: Iterable[int] | None = None) -> None:
        """Tell peers, all of them unless given."""
        message = np.array((job, signal, layer), np.int64).tobytes()
        for rank in self._peers if to is None else to:
            self._peers[rank].sendall(message)

    def heard(self, job: int, signal: int, layer: int, rank: int) -> bool:
        """Whether a peer has said this."""
        with self._news:
            return rank in self._said[job, signal, layer]

    def wait(self, job: int, signal: int, layer: int, ranks: Iterable[int]) -> None:
        """Block until all of these peers have said it, or one of them is gone."""
        wanted, names = set(ranks), ("prefix", "kv", "want", "done")
        with self._news:
            said = self._said[job, signal, layer]
            self._news.wait_for(lambda: wanted <= said or (wanted - said) & self._gone, self._wait_s)
            if missing := sorted(wanted - said):
                raise PeerGoneError(f"no {names[signal]} of layer {layer} from ranks {missing}")

    def forget(self, job: int) -> None:
        """Drop what was said of a job that is over."""
        with self._news:
            for key in [key for key in self._said if key[0] == job]:
                del self._said[key]

    def _hear(self, rank: int) -> None:
        with self._peers[rank].makefile("rb") as stream:
            while message := stream.read(MESSAGE_BYTES):
                job, signal, layer = np.frombuffer(message, np.int64).tolist()
                with self._news:
                    self._said[job, signal, layer].add(rank)
                    self._news.notify_all()
        with self._news:
            self._gone.add(rank)
            self._news.notify_all()
