"""Decode's side of all hand-overs: who holds which pages, and when pages that prefill may write come back.

A request that gives up while prefill may write (waiting timeout, abort, lost client) is answered at once.
Its pages are another matter, and the protocol in force when they were set aside decides:

    unfixed    free now; prefill is not told
    deferred   prefill is told; free on its last word, or after `drain_s` without one ("releasing anyway")
    fixed      prefill is told; free on its last word, however long that takes

In all three the worker goes on listening, so that the ledger knows when the last write came and whether it
came too late. Whose writes a request has read it learns from the marks in the pool (`replay.lab.kvpool`):
they are compared before every step of every request.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

import numpy as np

from replay.lab.admission import SlotQueue
from replay.lab.bootstrap import Announce, Done, KVReceiver, KVTransferError, Timeouts
from replay.lab.exposition import Metrics
from replay.lab.intake import Submission
from replay.lab.kvpool import KVPool, Marks, Slot, mark_of, pages_for
from replay.lab.mooncake import Mooncake
from replay.lab.slot import Lease, Move, Race, State

MAX_LOST = 4096
"""Rooms of lost requests whose rid is remembered, to name the writer of a late write."""


@dataclass(slots=True, eq=False)
class Tenancy:
    """One request and its slot."""

    asked: Submission
    slot: Slot
    lease: Lease
    receiver: KVReceiver
    marks: Marks = field(default_factory=lambda: np.zeros((0, 0), np.uint64))
    """The pool's marks on its pages, as they were when somebody last looked."""


@dataclass(frozen=True, slots=True)
class Release:
    """How pages came back that prefill knew of: after how long, and what was written into them later."""

    how: str
    after_s: float
    late_layers: int


@dataclass(frozen=True, slots=True)
class Intrusion:
    """A write by another hand-over into pages that a request was reading from."""

    pages: tuple[int, ...]
    rid: str | None


class Tell(Protocol):
    """Called once when everything about a lost request is known."""

    def __call__(self, release: Release | None) -> None:
        """None: prefill could not write any more when the request was lost."""


class Handovers:
    """All hand-overs of one decode worker."""

    def __init__(
        self, name: str, pool: KVPool, slots: SlotQueue, metrics: Metrics, timeouts: Timeouts
    ) -> None:
        """Receive into `pool`, whose pages come from `slots`."""
        self.race = Race.FIXED
        self.timeouts = timeouts
        self.late_writes = 0
        self.mooncake: Mooncake | None = None
        """What the pool is registered with; without it prefill copies through its own mapping."""
        self._name = name
        self._pool = pool
        self._slots = slots
        self._metrics = metrics
        self._tasks: asyncio.TaskGroup | None = None
        self._unsettled = 0
        self._draining = 0
        self._lost: OrderedDict[int, str] = OrderedDict()

    def __repr__(self) -> str:
        """Show the protocol and what is still open."""
        return f"<Handovers {self.race}, {self._draining} draining, {self._unsettled} unsettled>"

    @property
    def unsettled(self) -> int:
        """Lost requests whose last write is still to come."""
        return self._unsettled

    @property
    def draining(self) -> int:
        """Lost requests whose pages wait for prefill's last word."""
        return self._draining

    def serve_in(self, tasks: asyncio.TaskGroup | None) -> None:
        """Listen for last words in these tasks; None: the worker ends, nobody listens any more."""
        self._tasks = tasks

    def open(self, asked: Submission, slot: Slot) -> Tenancy:
        """Begin a hand-over into `slot`."""
        pair = asked.bootstrap
        if pair is None:
            raise KVTransferError(0, "no bootstrap room")
        announce = Announce(
            pair.room,
            asked.rid,
            self._name,
            list(slot.pages),
            len(asked.prompt),
            segment=self.mooncake.segment if self.mooncake else "",
            base=self.mooncake.base if self.mooncake else 0,
        )
        return Tenancy(asked, slot, Lease(self.race), KVReceiver(pair.host, pair.port, announce))

    async def receive(self, tenancy: Tenancy) -> Done:
        """Announce the pages and wait until prefill has written them."""
        receiver, lease = tenancy.receiver, tenancy.lease
        await receiver.connect()
        lease.move(Move.ANNOUNCE)
        done = await receiver.receive(self.timeouts.waiting_s)
        lease.move(Move.DONE)
        receiver.close()
        tenancy.marks = self._marks(tenancy).copy()
        tenancy.marks[:, : self._prompt_pages(tenancy)] = self._mark(tenancy)
        return done

    def intrusion(self, tenancy: Tenancy) -> Intrusion | None:
        """Tell whose write has come into the pages since the last look, if any has."""
        now = self._marks(tenancy)
        if (now == tenancy.marks).all():
            return None
        changed = now != tenancy.marks
        pages = tuple(page for page, hit in zip(tenancy.slot.pages, changed.any(axis=0), strict=True) if hit)
        tenancy.marks = now
        return Intrusion(pages, self._lost.get(int(now[changed][0])))

    def retire(self, tenancy: Tenancy) -> None:
        """Take the pages back from a request that is over."""
        tenancy.lease.move(Move.RETIRE)
        self._slots.give(tenancy.slot)

    def give_up(self, tenancy: Tenancy, tell: Tell) -> None:
        """Leave a slot whose KV will not be used. Returns at once; `tell` is called when all is known."""
        lease, receiver = tenancy.lease, tenancy.receiver
        if receiver.settled:
            lease.move(Move.FAIL if lease.state is State.WRITING else Move.WITHDRAW)
            self._slots.give(tenancy.slot)
            receiver.close()
            tell(None)
        elif self._tasks is None:
            receiver.close()
        else:
            self._remember(tenancy)
            if lease.give_up() is State.DRAINING:
                receiver.abort()
            self._unsettled += 1
            self._tasks.create_task(self._settle(tenancy, tell), name=f"settle-{tenancy.asked.rid}")

    def _remember(self, tenancy: Tenancy) -> None:
        self._lost[int(self._mark(tenancy))] = tenancy.asked.rid
        while len(self._lost) > MAX_LOST:
            self._lost.popitem(last=False)

    async def _settle(self, tenancy: Tenancy, tell: Tell) -> None:
        began = monotonic()
        release = None
        try:
            how = "abandoned" if tenancy.lease.state is State.RECLAIMED else await self._drain(tenancy, began)
            release = Release(how, monotonic() - began, 0)
            if how != "drained":
                release = Release(how, release.after_s, await self._overhear(tenancy))
        finally:
            tenancy.receiver.close()
            self._unsettled -= 1
        tell(release)

    async def _drain(self, tenancy: Tenancy, began: float) -> str:
        """Hold the pages as long as the protocol wants."""
        lease = tenancy.lease
        limit_s = self.timeouts.drain_s if lease.race is Race.DEFERRED else None
        self._draining += 1
        try:
            word = await tenancy.receiver.last_word(limit_s)
        finally:
            self._draining -= 1
        lease.move(Move.EXPIRE if word is None else Move.FENCE)
        how = "timeout" if word is None else "drained"
        self._metrics.deferred_release(how, monotonic() - began)
        if word is not None:
            self._slots.give(tenancy.slot)
        return how

    async def _overhear(self, tenancy: Tenancy) -> int:
        """Free the pages, and count the layers that are written after that."""
        before = self._written(tenancy)
        self._slots.give(tenancy.slot)
        word = await tenancy.receiver.last_word()
        after = np.ones_like(before) if isinstance(word, Done) else before | self._written(tenancy)
        late = int((after & ~before).sum())
        self.late_writes += late > 0
        return late

    def _written(self, tenancy: Tenancy) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which layers of the prompt's pages carry this hand-over's mark."""
        own = self._marks(tenancy)[:, : self._prompt_pages(tenancy)] == self._mark(tenancy)
        return np.asarray(own.any(axis=1))

    def _marks(self, tenancy: Tenancy) -> Marks:
        return self._pool.writers[:, tenancy.slot.pages]

    @staticmethod
    def _prompt_pages(tenancy: Tenancy) -> int:
        return pages_for(len(tenancy.asked.prompt))

    @staticmethod
    def _mark(tenancy: Tenancy) -> np.uint64:
        return mark_of(tenancy.asked.bootstrap.room if tenancy.asked.bootstrap else 0)
