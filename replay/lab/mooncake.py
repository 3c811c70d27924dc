"""The real transfer engine under the lab's hand-over: Mooncake over TCP, on the loopback.

    decode   registers its pool and announces segment (host:port) and base address with the pages
    prefill  registers its own and writes page by page: one batch a layer, K and V of every page

The engine writes by address and knows neither requests nor slots. A write to memory that is still registered
lands, whoever has the pages by then: the race is Mooncake's as much as the shared memory's. A write that is
under way cannot be called back.

Mooncake listens on every interface without asking who is there. Right after it has begun to listen, its
sockets are bound to the loopback device, so nothing from outside reaches them; where the kernel refuses, the
worker does not start.

An extra (`make lab-mooncake`): the wheel has 46 MB and needs Debian's libibverbs1 even for TCP. Cost: 0.2 s
and 60 MB at start, about 30 us a page and layer.
"""

import asyncio
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from replay.lab.kvpool import KVPool
from replay.lab.model import Floats
from replay.lab.transfer import Carry, Layer

LOOPBACK = "127.0.0.1"
DEVICE = b"lo\0"
ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 (looked for, to be closed)

QUIET = {"MC_LOG_LEVEL": "ERROR", "GLOG_minloglevel": "2"}
"""Without these it tells its start in ten lines."""


class MooncakeError(RuntimeError):
    """Ours: the engine is not installed, does not start, or cannot be kept to the loopback."""


class TransferEngine(Protocol):
    """What is used of `mooncake.engine.TransferEngine`; 0 is success everywhere."""

    def initialize(self, host: str, metadata: str, protocol: str, device: str) -> int:
        """Start listening."""

    def get_rpc_port(self) -> int:
        """Where peers find it."""

    def register_memory(self, address: int, length: int) -> int:
        """Let peers write there."""

    def batch_transfer_sync_write(
        self, segment: str, sources: Sequence[int], targets: Sequence[int], lengths: Sequence[int]
    ) -> int:
        """Write all and return when all have landed. The interpreter lock is free meanwhile."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A pool that another process has registered; it is mapped here too, which tells where its layers lie."""

    segment: str
    base: int
    pool: KVPool


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of one layer, [k|v, page, row, head, dim], by number."""

    layer: Floats
    numbers: Sequence[int]


class Mooncake:
    """One process's engine, with one pool registered."""

    def __init__(self, pool: KVPool, engine: TransferEngine | None = None) -> None:
        """Start an engine and register the pool."""
        self._engine = _load() if engine is None else engine
        self._pool = pool
        _must(self._engine.initialize(LOOPBACK, "P2PHANDSHAKE", "tcp", ""), "does not start")
        keep_to_loopback()
        _must(self._engine.register_memory(pool.address, pool.shape.size_bytes), "cannot register the pool")
        self.segment = f"{LOOPBACK}:{self._engine.get_rpc_port()}"
        """What peers call it."""

    def __repr__(self) -> str:
        """Name the segment."""
        return f"<Mooncake {self.segment}>"

    @property
    def base(self) -> int:
        """Where the pool begins, for peers."""
        return self._pool.address

    def carry(self, peer: Peer) -> Carry:
        """Return what writes layers into a peer's pool: in a thread, since the engine blocks."""

        async def write(layer: Layer, read: Sequence[int], write: Sequence[int]) -> int:
            ours, theirs = Pages(layer.ours, read), Pages(layer.theirs, write)
            return await asyncio.to_thread(self.write, peer, ours, theirs)

        return write

    def write(self, peer: Peer, ours: Pages, theirs: Pages) -> int:
        """Write pages of a layer of our pool into a peer's; anything but 0 is a failure. Blocks."""
        base = peer.base - peer.pool.address
        sources = [address for side in _sides(ours) for address in side]
        targets = [base + address for side in _sides(theirs) for address in side]
        lengths = [ours.layer[0, 0].nbytes] * len(sources)
        return self._engine.batch_transfer_sync_write(peer.segment, sources, targets, lengths)


def _sides(pages: Pages) -> Iterator[list[int]]:
    """Yield the addresses of a layer's pages, K and then V, as this process maps them."""
    for side in pages.layer:
        yield [int(side.ctypes.data) + number * side[0].nbytes for number in pages.numbers]


def _load() -> TransferEngine:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        from mooncake import engine  # noqa: PLC0415 (an extra: only where it is asked for)
    except ImportError as error:
        raise MooncakeError(f"Mooncake cannot be loaded ({error}): run `make lab-mooncake`") from error
    return cast("TransferEngine", engine.TransferEngine())


def _must(failed: int, what: str) -> None:
    if failed:
        raise MooncakeError(f"Mooncake {what} ({failed})")


def keep_to_loopback() -> int:
    """Bind every socket of this process that listens on all interfaces to the loopback; count them."""
    found = 0
    for listener in _listening():
        with listener:
            if listener.getsockname()[0] in ANYWHERE:
                try:
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, DEVICE)
                except OSError as error:
                    raise MooncakeError(f"Mooncake cannot be kept to the loopback: {error}") from error
                found += 1
    return found


def _listening() -> Iterator[socket.socket]:
    """Yield a duplicate of each listening TCP socket of this process."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # no socket, or closed since the listing
            if not str(entry.readlink()).startswith("socket:"):
                continue
            one = socket.socket(fileno=os.dup(int(entry.name)))
            if _listens(one):
                yield one
            else:
                one.close()


def _listens(one: socket.socket) -> bool:
    internet = one.family in {socket.AF_INET, socket.AF_INET6}
    return internet and bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
