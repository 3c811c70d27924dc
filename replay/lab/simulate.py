"""The races as a discrete-event simulation: the same table of states, the same page allocator, no model.

    arrive    pages are set aside, prefill is told, the request queues at its prefill worker
    computed  one prefill is over and the next begins; the layers are on their way
    written   the last layer has landed: acknowledged, or too late
    timeout   decode gives up; what becomes of the pages is the protocol's business
    retire    the answer is whole

Decode steps the whole batch at a fixed pace, so a request joins at the next tick and leaves a known number of
ticks later. A late write hits whoever holds its pages in a live state; whether that changes the answer is the
model's to say (`bank.Bank.changes`), and the simulator only tells how many verify steps were done by then.

Everything that is drawn comes from the plan of the load, so a run of the lab and its simulation see the same
requests in the same queues. Cost: about 60,000 requests a second.
"""

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from replay.lab.kvpool import PageTable, PoolExhaustedError, Slot
from replay.lab.load import Plan
from replay.lab.model import PAGE_TOKENS
from replay.lab.slot import LIVE, Lease, Move, Race, State


@dataclass(frozen=True, slots=True)
class Engine:
    """What a simulated site is made of."""

    race: Race
    waiting_s: float
    step_s: float
    steps: Sequence[int]
    """Verify steps of each prompt's answer."""
    slot_pages: int
    prompt_pages: int
    pages: int
    transfer_s: float = 0.0
    """From the end of a prefill until its last layer has landed."""

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        if self.step_s <= 0 or self.waiting_s <= 0 or self.transfer_s < 0:
            raise ValueError("a step and a wait take time, a transfer takes none or some")
        if not 0 < self.prompt_pages <= self.slot_pages <= self.pages:
            raise ValueError("prompt pages fit into a slot and a slot into the pool")


@dataclass(frozen=True, slots=True)
class Hit:
    """A late write that landed in pages of a live request."""

    victim: int
    writer: int
    steps_done: int
    steps_left: int


@dataclass(slots=True)
class Outcome:
    """What became of a load."""

    requests: int
    answered: int = 0
    timed_out: int = 0
    late_writes: int = 0
    hits: list[Hit] = field(default_factory=list)
    ended_s: float = 0.0


class _Event(IntEnum):
    """In this order where several come at the same time."""

    RETIRE = 0
    WRITTEN = 1
    COMPUTED = 2
    TIMEOUT = 3
    ARRIVE = 4


@dataclass(slots=True, eq=False)
class _Request:
    number: int
    lease: Lease
    slot: Slot | None = None
    joined_s: float = math.inf
    cancelled: bool = False


@dataclass(slots=True)
class _Prefill:
    """One prefill worker: what it computes and what waits."""

    free_at_s: float
    current: _Request | None = None
    line: deque[_Request] = field(default_factory=deque)


def simulate(plan: Plan, engine: Engine) -> Outcome:
    """Run a plan to its end, late writes included."""
    return _Site(plan, engine).run()


class _Site:
    def __init__(self, plan: Plan, engine: Engine) -> None:
        self._engine = engine
        self._at_s, self._worker = plan.at_s.tolist(), plan.worker.tolist()
        self._prompt, self._service_s = plan.prompt.tolist(), plan.service_s.tolist()
        self._table = PageTable(engine.pages)
        self._owner: list[_Request | None] = [None] * engine.pages
        self._line: deque[_Request] = deque()
        self._prefill = [_Prefill(backlog) for backlog in plan.backlog_s.tolist()]
        self._events: list[tuple[float, int, int, _Request]] = []
        self._sequence = 0
        self._tick_s = self._busy_until_s = -math.inf
        self._outcome = Outcome(len(self._at_s))

    def run(self) -> Outcome:
        handle = {
            _Event.RETIRE: self._retire,
            _Event.WRITTEN: self._written,
            _Event.COMPUTED: self._computed,
            _Event.TIMEOUT: self._timeout,
        }
        coming = 0
        while self._events or coming < len(self._at_s):
            if coming < len(self._at_s) and (not self._events or self._at_s[coming] < self._events[0][0]):
                self._arrive(self._at_s[coming], coming)
                coming += 1
                continue
            now, kind, _, request = heapq.heappop(self._events)
            handle[_Event(kind)](now, request)
        return self._outcome

    def _push(self, at_s: float, event: _Event, request: _Request) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (at_s, event, self._sequence, request))

    def _arrive(self, now: float, number: int) -> None:
        self._line.append(_Request(number, Lease(self._engine.race)))
        self._admit(now)

    def _admit(self, now: float) -> None:
        """Set pages aside for whoever is first in line, and tell prefill."""
        while self._line:
            request = self._line[0]
            try:
                request.slot = self._table.alloc(self._engine.slot_pages * PAGE_TOKENS)
            except PoolExhaustedError:
                return
            self._line.popleft()
            for page in request.slot.pages:
                self._owner[page] = request
            request.lease.move(Move.ANNOUNCE)
            self._push(now + self._engine.waiting_s, _Event.TIMEOUT, request)
            worker = self._prefill[self._worker[request.number]]
            worker.line.append(request)
            self._start(now, worker)

    def _start(self, now: float, worker: _Prefill) -> None:
        while worker.current is None and worker.line:
            request = worker.line.popleft()
            if request.cancelled:
                continue
            worker.current = request
            worker.free_at_s = max(now, worker.free_at_s) + self._service_s[request.number]
            self._push(worker.free_at_s, _Event.COMPUTED, request)

    def _computed(self, now: float, request: _Request) -> None:
        worker = self._prefill[self._worker[request.number]]
        if request.cancelled or worker.current is not request:
            return
        worker.current = None
        self._push(now + self._engine.transfer_s, _Event.WRITTEN, request)
        self._start(now, worker)

    def _written(self, now: float, request: _Request) -> None:
        if request.cancelled:
            return
        if request.lease.state is State.WRITING:
            request.lease.move(Move.DONE)
            self._join(now, request)
        else:
            self._land_late(now, request)

    def _land_late(self, now: float, writer: _Request) -> None:
        self._outcome.late_writes += 1
        self._outcome.ended_s = now
        pages = writer.slot.pages[: self._engine.prompt_pages] if writer.slot else ()
        owners = {owner.number: owner for page in pages if (owner := self._owner[page]) is not None}
        for owner in owners.values():
            if owner.lease.state in LIVE:
                self._hit(now, owner, writer)

    def _hit(self, now: float, victim: _Request, writer: _Request) -> None:
        steps = self._engine.steps[self._prompt[victim.number]]
        done = min(steps, max(0, math.floor((now - victim.joined_s) / self._engine.step_s)))
        self._outcome.hits.append(Hit(victim.number, writer.number, done, steps - done))

    def _join(self, now: float, request: _Request) -> None:
        """Wait for the next tick of the batch; an engine that sleeps wakes at once."""
        step_s = self._engine.step_s
        if now >= self._busy_until_s + step_s:
            self._tick_s = now
        request.joined_s = self._tick_s + math.ceil((now - self._tick_s) / step_s) * step_s
        request.lease.move(Move.JOIN)
        ends_s = request.joined_s + self._engine.steps[self._prompt[request.number]] * step_s
        self._busy_until_s = max(self._busy_until_s, ends_s)
        self._push(ends_s, _Event.RETIRE, request)

    def _retire(self, now: float, request: _Request) -> None:
        request.lease.move(Move.RETIRE)
        self._outcome.answered += 1
        self._outcome.ended_s = now
        self._release(now, request)

    def _timeout(self, now: float, request: _Request) -> None:
        if request.lease.state is not State.WRITING:
            return
        self._outcome.timed_out += 1
        if request.lease.give_up() is State.DRAINING:
            self._call_back(now, request)
            request.lease.move(Move.FENCE)
        self._release(now, request)

    def _call_back(self, now: float, request: _Request) -> None:
        """Prefill is told and stops at once; the time that it would have taken is free."""
        request.cancelled = True
        worker = self._prefill[self._worker[request.number]]
        if worker.current is request:
            worker.current, worker.free_at_s = None, now
            self._start(now, worker)

    def _release(self, now: float, request: _Request) -> None:
        if request.slot is not None:
            for page in request.slot.pages:
                self._owner[page] = None
            self._table.free(request.slot)
        self._admit(now)
