"""The decode worker: pages first, then the KV from prefill, then draft and verify until the answer is over.

    prealloc    wait for pages for prompt and answer
    transfer    announce them to prefill, wait until every layer has arrived (`replay.lab.handover`)
    waiting     wait for a place in the running batch
    running     one verify step an iteration

Engine and HTTP server share one event loop: an iteration computes without awaiting, then the loop has the
rest of the pace to itself. A second thread would gain nothing: numpy on vectors this small holds the
interpreter lock nearly all the time, and each socket write would hand the lock over for 5 ms.

Cost: an iteration takes about 1 ms a running request; the pace (`step_ms`) is a floor, not a promise.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from replay.lab.admission import SlotQueue
from replay.lab.bootstrap import ABORTED, Done, KVTransferError, Timeouts
from replay.lab.corruption import TRANSIENT_STEPS, Victim
from replay.lab.exposition import Metrics
from replay.lab.faults import FaultPlan, Order, strike
from replay.lab.handover import Handovers, Release, Tenancy
from replay.lab.intake import RequestError, Submission
from replay.lab.kvpool import KVPool, PageTable, PoolExhaustedError
from replay.lab.ledger import Account, Auditor, Ledger, sampling_rng
from replay.lab.loglines import EngineLog, PoolUse
from replay.lab.model import TinyLM
from replay.lab.ngram import Drafter
from replay.lab.prefill import NO_ROOM
from replay.lab.scheduler import (
    RUNNING_ABORT,
    WAITING_ABORT,
    Aborted,
    Cached,
    Finish,
    Generation,
    LengthReached,
    LiveRequests,
    Phase,
    Stopped,
)
from replay.lab.slot import Move
from replay.lab.speculation import DRAFT_TOKENS, RequestState, Speculator, StepResult

DRAFTERS = ("model", "ngram")

LATE_WRITE = "late_write"
"""What the ledger calls it when a writer that lost its pages wrote into them."""

MAX_RUNNING = 64
"""Requests in the batch; more wait. At 1 ms each an iteration stays below 0.1 s."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The least time of an iteration, so that streams look like a real engine's."""

    step_ms: float = 12.0

    def __post_init__(self) -> None:
        """Refuse a pace that cannot be kept."""
        if not 0 <= self.step_ms <= 60_000:  # noqa: PLR2004 (a minute a token is a stopped clock)
            raise ValueError(f"step_ms {self.step_ms} is not between 0 and 60000")


@dataclass(slots=True, eq=False)
class Running:
    """One request of the batch."""

    generation: Generation
    tenancy: Tenancy
    state: RequestState
    account: Account
    order: Order | None
    last_step_at: float
    undo: tuple[int, Callable[[], None]] | None = None
    """At which verify step a transient fault passes, and how."""

    @property
    def victim(self) -> Victim:
        """The request as a fault sees it."""
        return Victim(self.generation.asked.rid, self.state, self.tenancy.slot, self.account.applied)


class DecodeWorker:
    """Takes requests in, receives their KV, steps them together."""

    mode = "decode"
    hangup_s = 0.0

    def __init__(
        self, name: str, index: int, models: tuple[TinyLM, TinyLM], pool: KVPool, timeouts: Timeouts
    ) -> None:
        """Run on `pool`, which prefill workers know by `name`; `index` sets this worker's faults apart."""
        self.name = name
        self.models = models
        self.plan = FaultPlan()
        self.pace = Pace()
        self.live = LiveRequests()
        self.slots = SlotQueue(PageTable(pool.shape.pages))
        self.metrics = Metrics(self.mode, pool.shape.pages)
        self.ledger = Ledger(name)
        self.auditor = Auditor(*models, self.ledger)
        self._index = index
        self._pool = pool
        self.handovers = Handovers(name, pool, self.slots, self.metrics, timeouts)
        self._speculator = Speculator(*models, pool.target, pool.draft)
        self.log = EngineLog()
        self._going = asyncio.Event()
        self._going.set()
        self._admitted = 0
        self._waiting: deque[Running] = deque()
        self._batch: list[Running] = []
        self._work = asyncio.Event()

    def __repr__(self) -> str:
        """Show the live requests, the pool and the plan."""
        return f"<DecodeWorker {self.name} {self.live} {self.slots} faults {self.plan.spec}>"

    def start(self, asked: Submission, tasks: asyncio.TaskGroup) -> Generation:
        """Take a request in and fetch its KV in a task of the worker."""
        if asked.bootstrap is None:
            raise RequestError(f"{NO_ROOM} req.rid={asked.rid!r}")
        generation = self.live.admit(asked, Phase.PREALLOC)
        self.metrics.received(len(asked.prompt), streaming=asked.stream)
        generation.task = tasks.create_task(self._receive(generation), name=f"receive-{asked.rid}")
        return generation

    def abort(self, generation: Generation) -> None:
        """End a request: at once while it waits, after one more step while it runs."""
        match generation.phase:
            case Phase.PREALLOC | Phase.TRANSFER if generation.task is not None:
                generation.task.cancel()
            case Phase.WAITING:
                waiting = next(one for one in self._waiting if one.generation is generation)
                self._waiting.remove(waiting)
                self._retire(waiting, WAITING_ABORT)
            case _:
                generation.aborting = True

    def follow(self, plan: FaultPlan) -> None:
        """Plan faults anew from the next request on; another seed starts the count of requests again."""
        if plan.seed != self.plan.seed:
            self._admitted = 0
        self.plan = plan

    @property
    def pending(self) -> int:
        """Requests that have ended and whose ledger line is not written yet."""
        return self.auditor.pending + self.handovers.unsettled

    async def run(self) -> None:
        """Step the batch at the pace for ever, and listen to prefill about requests that are gone."""
        async with asyncio.TaskGroup() as tasks:
            self.handovers.serve_in(tasks)
            try:
                await self._run()
            finally:
                self.handovers.serve_in(None)

    async def _run(self) -> None:
        """Sleep while there is nothing to do."""
        while True:
            await self._work.wait()
            await self._going.wait()
            began = monotonic()
            self._iterate()
            await self._rest(began + self.pace.step_ms / 1e3)
            if not (self._batch or self._waiting or self.auditor.pending):
                self._work.clear()

    @property
    def stuck(self) -> bool:
        """Whether the scheduler stands still: requests come in, wait and are aborted, nothing is computed."""
        return not self._going.is_set()

    @stuck.setter
    def stuck(self, stuck: bool) -> None:
        (self._going.clear if stuck else self._going.set)()

    @property
    def drafter(self) -> str:
        """Who drafts: `model` or `ngram`. The answers do not depend on it."""
        return "ngram" if self._speculator.drafter else "model"

    @drafter.setter
    def drafter(self, name: str) -> None:
        if name not in DRAFTERS:
            raise ValueError(f"unknown drafter {name!r}; there are {', '.join(DRAFTERS)}")
        self._speculator = replace(self._speculator, drafter=Drafter() if name == "ngram" else None)

    @property
    def pool_use(self) -> PoolUse:
        """How many pages requests hold."""
        table = self.slots.table
        return PoolUse(table.pages, table.pages - table.free_pages)

    async def _rest(self, until: float) -> None:
        """Let the readers have their chunks; spend what is left of the pace on audits, one step at least."""
        await asyncio.sleep(0)
        self.auditor.work()
        while self.auditor.pending and monotonic() < until:
            await asyncio.sleep(0)
            self.auditor.work()
        await asyncio.sleep(max(0.0, until - monotonic()))

    async def _receive(self, generation: Generation) -> None:
        asked, tenancy = generation.asked, None
        try:
            slot = await self.slots.take(len(asked.prompt) + asked.max_new_tokens + DRAFT_TOKENS)
            generation.phase, allocated = Phase.TRANSFER, monotonic()
            self.metrics.stage("decode_bootstrap", allocated - generation.stamps.received)
            tenancy = self.handovers.open(asked, slot)
            done = await self.handovers.receive(tenancy)
            self.metrics.stage("decode_transferred", monotonic() - allocated)
        except (KVTransferError, PoolExhaustedError) as error:
            self._lose(generation, tenancy, str(error))
        except asyncio.CancelledError:
            self._lose(generation, tenancy, str(KVTransferError(_room(asked), ABORTED)))
        else:
            self._enqueue(generation, tenancy, done)

    def _lose(self, generation: Generation, tenancy: Tenancy | None, cause: str) -> None:
        """End a request whose KV did not arrive, in the engine's words; its pages go as the protocol says."""
        asked, early = generation.asked, generation.phase is Phase.PREALLOC
        text = f"Decode {'handshake' if early else 'transfer'} failed for request rank=0"
        names = f"decode_req.req.rid={asked.rid!r} decode_req.req.bootstrap_room={_room(asked)}"
        self.metrics.transfer_failed(before_write=early)
        self.log.failed(f"{text} {names} with exception {cause}")
        self._end(generation, Aborted(f"{text} {names} with exception {cause}", 500))
        account = Account(asked)

        def tell(release: Release | None) -> None:
            if release is not None:
                account.release, account.release_s = release.how, round(release.after_s, 6)
                account.late_layers = release.late_layers
            self._account(generation, account)

        if tenancy is None:
            tell(None)
        else:
            self.handovers.give_up(tenancy, tell)

    def _enqueue(self, generation: Generation, tenancy: Tenancy, done: Done) -> None:
        """Queue a request whose KV is complete; it gets its number, which decides about its fault."""
        asked, slot = generation.asked, tenancy.slot
        tokens = [*asked.prompt, done.first_token]
        generation.cached = Cached(done.device_tokens, done.host_tokens)
        state = RequestState(tokens, len(asked.prompt), slot.pages, slot.pages, asked.temperature)
        state.rng, state.draft_done = sampling_rng(asked, 1), len(asked.prompt)
        order = self.plan.draw(self._index, self._admitted)
        self._admitted += 1
        account = Account(asked, kind=order.kind if order else "none")
        if done.taint is not None:
            account.kind, account.applied, account.at_token, order = done.taint, True, 0, None
        generation.phase, generation.stamps.queued = Phase.WAITING, monotonic()
        self._waiting.append(Running(generation, tenancy, state, account, order, monotonic()))
        self._work.set()

    def _iterate(self) -> None:
        steps = [self._step(one) for one in self._batch]
        if steps and (interval := self.metrics.iteration(steps, monotonic())):
            self.log.decode_batch(interval, self.live.phases(), self.pool_use)
        for one in self._batch:
            if one.generation.finish:
                self._retire(one, one.generation.finish)
        self._batch = [one for one in self._batch if not one.generation.finish]
        while self._waiting and len(self._batch) < MAX_RUNNING:
            self._join(self._waiting.popleft())

    def _join(self, one: Running) -> None:
        """Put a request into the batch: the first token, prefill's, goes out now."""
        generation = one.generation
        one.tenancy.lease.move(Move.JOIN)
        generation.enter_forward()
        generation.say(one.state.answer)
        now = monotonic()
        self.metrics.stage("decode_waiting", now - one.last_step_at)
        one.last_step_at = now
        self.metrics.first_token(now - generation.stamps.received, streaming=generation.asked.stream)
        if generation.finish:
            self._retire(one, generation.finish)
        else:
            self._batch.append(one)

    def _step(self, one: Running) -> StepResult:
        """One verify step of one request, its fault first if it is due."""
        if one.order is not None and len(one.generation.output) >= one.order.at_token:
            self._strike(one, one.order)
        self._look(one)
        generation = one.generation
        if one.undo is not None and generation.spec.verify_steps >= one.undo[0]:
            one.undo[1]()
            one.undo = None
        before = len(generation.output)
        step = self._speculator.step(one.state)
        generation.spec.add(step)
        generation.say(step.new_tokens)
        if generation.aborting and not generation.finish:
            generation.finish = RUNNING_ABORT
        now = monotonic()
        self.metrics.tokens(len(generation.output) - before, now - one.last_step_at)
        one.last_step_at = now
        return step

    def _strike(self, one: Running, order: Order) -> None:
        live = (other.victim for other in self._batch)
        touch = strike(order, one.victim, live, self._pool, self.slots.table.free_list)
        if touch is None:
            return  # what it needs is not there yet: try again at the next step
        one.order = None
        account, generation = one.account, one.generation
        if touch.undo is not None:
            one.undo = (generation.spec.verify_steps + TRANSIENT_STEPS, touch.undo)
        account.applied, account.pages, account.donor_rid = True, touch.pages, touch.donor_rid
        account.at_token, account.at_step = len(generation.output), generation.spec.verify_steps

    def _look(self, one: Running) -> None:
        """Put down whose KV came into this request's pages since its last step."""
        intrusion, account = self.handovers.intrusion(one.tenancy), one.account
        if intrusion is None or account.applied:
            return
        one.order = None
        account.kind, account.applied, account.pages = LATE_WRITE, True, intrusion.pages
        account.donor_rid = intrusion.rid
        account.at_token = len(one.generation.output)
        account.at_step = one.generation.spec.verify_steps

    def _retire(self, one: Running, finish: Finish) -> None:
        """Take a request out of the engine; its pages are free at once."""
        self._look(one)
        self.handovers.retire(one.tenancy)
        if one.order is not None:
            due = len(one.generation.output) >= one.order.at_token
            one.account.reason = "no donor was live" if due else "the answer ended before its onset"
        self._end(one.generation, finish)
        self._account(one.generation, one.account)

    def _end(self, generation: Generation, finish: Finish) -> None:
        """Tell the client; the rid is free again."""
        generation.end(finish)
        self.metrics.finished(generation)
        self.live.forget(generation)

    def _account(self, generation: Generation, account: Account) -> None:
        """Write the request's ledger line, after an audit where its KV was touched."""
        account = replace(account, output=tuple(generation.output), finished=_outcome(generation.finish))
        if account.applied:
            self.auditor.submit(account)
            self._work.set()
        else:
            self.ledger.write(account)


def _room(asked: Submission) -> int:
    return asked.bootstrap.room if asked.bootstrap else 0


def _outcome(finish: Finish | None) -> str:
    match finish:
        case Stopped():
            return "stop"
        case LengthReached():
            return "length"
        case Aborted(_, None):
            return "abort"
        case _:
            return "error"
