"""The prefill worker: bootstrap, one forward pass, the transfer, and an answer of one token.

    bootstrap   wait until decode has said where the KV must go
    waiting     wait for pages here and for the turn to compute
    running     the prompt through target and draft model, and the rest of the time that it would take a real
                engine (`service`)
    transfer    layer by layer into decode's pool; then the first token goes over the bootstrap channel

The time of the next prefill counts from the end of the one before it, not from when this process woke up, so
a busy machine does not make the queue longer than the load does.

Every failure reaches decode as `failed`, the router as SGLang's HTTP 500, and the count of failed
hand-overs.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from replay.lab import speculation
from replay.lab.admission import SlotQueue
from replay.lab.bootstrap import ABORTED, Announce, BootstrapServer, Done, Failed, KVTransferError, Room
from replay.lab.cache_metrics import CacheMetrics
from replay.lab.exposition import Metrics, Transfer
from replay.lab.hicache import Lease, Mode, NoCache, PrefixCache
from replay.lab.intake import Bootstrap, RequestError, Submission
from replay.lab.kvpool import KVPool, PageTable, Slot
from replay.lab.ledger import sampling_rng
from replay.lab.load import PrefillTime
from replay.lab.loglines import EngineLog, PoolUse
from replay.lab.model import TinyLM
from replay.lab.mooncake import Mooncake, Peer
from replay.lab.scheduler import Aborted, Cached, Generation, LiveRequests, Phase, wall_s
from replay.lab.transfer import Carry, Flight, Gate, Route, Side, TransferError, open_gate, write_prompt

MAX_BACKLOG_S = 3600.0
"""Work that somebody may put into the queue at a time."""

NO_ROOM = "Invalid request: Disaggregated request received without bootstrap room id."


@dataclass(frozen=True, slots=True)
class Service:
    """How fast this worker is."""

    time: PrefillTime = field(default_factory=PrefillTime)
    speed: float = 1.0
    """Prefills in the time of one; 0 stops the queue. Two workers at 0.5 are one: the live P:D ratio."""
    layer_s: float = 0.0
    """How long the write of one layer is on the wire, where nothing can call it back."""
    hangup_s: float = 0.0
    """From the loss of a client to the abort of its request; SGLang takes 2 to 4 s."""

    def __post_init__(self) -> None:
        """Refuse what no worker could do."""
        if not 0 <= self.speed <= 1000:  # noqa: PLR2004 (above that, leave the prefill time at 0)
            raise ValueError(f"speed {self.speed} is not between 0 and 1000")
        if not 0 <= self.layer_s <= 60 or not 0 <= self.hangup_s <= 600:  # noqa: PLR2004 (tests of patience)
            raise ValueError("a layer takes 0 to 60 s, a hang-up 0 to 600 s")


class PrefillWorker:
    """Takes requests in, computes them one after the other, hands their KV over."""

    mode = "prefill"

    def __init__(
        self, models: tuple[TinyLM, TinyLM], pool: KVPool, peers: Mapping[str, KVPool], rooms: BootstrapServer
    ) -> None:
        """Compute in `pool` and write into the decode pools `peers` by name."""
        self.models = models
        self._pool = pool
        self._peers = peers
        self._rooms = rooms
        self._turn = asyncio.Lock()
        self.slots = SlotQueue(PageTable(pool.shape.pages))
        self.live = LiveRequests()
        self.metrics = Metrics(self.mode, pool.shape.pages)
        self.gate: Gate = open_gate
        self.flight: Flight | None = None
        self.mooncake: Mooncake | None = None
        self._service = Service()
        self._going = asyncio.Event()
        self._going.set()
        self._free_at = monotonic()
        self._piled_s = 0.0  # put in front of the queue while a prefill ran: it comes after that one
        self.cache: PrefixCache | NoCache = NoCache(self.slots)
        self._cache_metrics: CacheMetrics | None = None
        self.log = EngineLog()

    def __repr__(self) -> str:
        """Show the live requests and the pool."""
        return f"<PrefillWorker {self.live} {self.slots}>"

    def use_cache(self, host_pages: int = 0, mode: Mode = Mode.OFF) -> PrefixCache:
        """Keep computed prompts from now on, with a host tier of that many pages under the pool."""
        cache = self.cache = PrefixCache(self.slots, self._pool, host_pages, mode)
        self._cache_metrics = CacheMetrics(self.metrics.registry, cache)
        return cache

    def flush(self) -> bool:
        """Drop the prefix cache; False where somebody still uses it."""
        if isinstance(self.cache, PrefixCache):
            if not self.cache.is_idle:
                return False
            self.cache.flush()
        return True

    def count_cache(self) -> None:
        """Bring the cache's metrics up to now."""
        if self._cache_metrics is not None:
            self._cache_metrics.update()

    @property
    def service(self) -> Service:
        """How fast it is now."""
        return self._service

    @property
    def hangup_s(self) -> float:
        """From the loss of a client to the abort of its request."""
        return self._service.hangup_s

    def serve_at(self, service: Service) -> None:
        """Change speed from the next prefill on."""
        self._service = service
        (self._going.set if service.speed else self._going.clear)()

    @property
    def backlog_s(self) -> float:
        """Time until the prefill that runs now, and all work put in front of the queue, is done."""
        return max(0.0, self._free_at - monotonic()) + self._piled_s

    def pile_up(self, seconds: float) -> None:
        """Put so much work in front of the queue; it goes by like any other."""
        if not 0 <= seconds <= MAX_BACKLOG_S:
            raise ValueError(f"a backlog of {seconds} s is not between 0 and {MAX_BACKLOG_S:g}")
        if self._turn.locked():
            self._piled_s += seconds
        else:
            self._free_at = max(monotonic(), self._free_at) + seconds

    def start(self, asked: Submission, tasks: asyncio.TaskGroup) -> Generation:
        """Take a request in; its work runs as a task of the worker, not of the connection."""
        if asked.bootstrap is None:
            raise RequestError(f"{NO_ROOM} req.rid={asked.rid!r}")
        generation = self.live.admit(asked, Phase.BOOTSTRAP)
        self.metrics.received(len(asked.prompt), streaming=asked.stream)
        serving = self._serve(generation, asked.bootstrap)
        generation.task = tasks.create_task(serving, name=f"prefill-{asked.rid}")
        return generation

    def abort(self, generation: Generation) -> None:
        """Stop a request wherever it is; its task settles the room."""
        if generation.task is not None:
            generation.task.cancel()

    async def _serve(self, generation: Generation, pair: Bootstrap) -> None:
        room: Room | None = None
        try:
            room = self._rooms.open(pair.room)
            if generation.task is not None:
                room.on_abort(generation.task.cancel)
            room.settle(await self._hand_over(generation, room))
        except KVTransferError as error:
            self._fail(generation, room, error)
        except asyncio.CancelledError:
            self._fail(generation, room, KVTransferError(pair.room, ABORTED))
        finally:
            if room is not None:
                self._rooms.close(room)
            self.metrics.finished(generation)
            self.live.forget(generation)

    async def _hand_over(self, generation: Generation, room: Room) -> Done:
        began = monotonic()
        announce = await self._rooms.announcement(room)
        peer = self._peer(announce, generation)
        generation.phase = Phase.WAITING
        generation.stamps.queued = announced = monotonic()
        lease = await self.cache.take(generation.asked.prompt)
        try:
            alloc_s = monotonic() - announced
            first = await self._take_turn(generation, lease, announced)
            writing = monotonic()
            size_bytes = await self._write(generation, lease.slot, peer, self._carry(announce))
        finally:
            self.cache.give(lease)
        self.metrics.transferred(Transfer(announced - began, alloc_s, monotonic() - writing, size_bytes))
        generation.hand_over(first)
        return Done(room.number, first, size_bytes, lease.device_tokens, lease.host_tokens, lease.taint)

    def _peer(self, announce: Announce, generation: Generation) -> Side:
        pool = self._peers.get(announce.pool)
        if pool is None:
            raise KVTransferError(announce.room, f"unknown decode pool {announce.pool!r}")
        if announce.prompt_tokens != len(generation.asked.prompt):
            raise KVTransferError(announce.room, "prefill and decode disagree about the prompt's length")
        return Side(pool, announce.pages)

    async def _take_turn(self, generation: Generation, lease: Lease, announced: float) -> int:
        """Compute the prompt when it is its turn, and take as long as a real engine would."""
        async with self._turn:
            await self._going.wait()
            self._take_up(self._free_at)
            await _until(self._free_at)
            service_s = self._service.time.of(_room(generation)) / (self._service.speed or 1.0)
            done_at = max(announced, self._free_at) + service_s
            try:
                forward = monotonic()
                first = self._compute(generation, lease)
                await _until(done_at)
                self.metrics.stage("prefill_forward", monotonic() - forward)
            finally:
                self._take_up(min(done_at, monotonic()))
        return first

    def _take_up(self, free_at: float) -> None:
        """Say when the worker is free, with what has been put in front of the queue meanwhile."""
        if self._piled_s:
            free_at = max(monotonic(), free_at) + self._piled_s
        self._free_at, self._piled_s = free_at, 0.0

    def _compute(self, generation: Generation, lease: Lease) -> int:
        """Compute what the cache does not have, in both models."""
        asked, pages, start = generation.asked, lease.slot.pages, lease.cached_tokens
        generation.enter_forward()
        began = monotonic()
        generation.cached = Cached(lease.device_tokens, lease.host_tokens)
        state = speculation.RequestState(list(asked.prompt), len(asked.prompt), pages, pages)
        state.temperature, state.rng = asked.temperature, sampling_rng(asked, 0)
        first = speculation.prefill(self.models[0], state, self._pool.target, start, lease.before("target"))
        speculation.prefill_draft(self.models[1], state, self._pool.draft, start, lease.before("draft"))
        self.cache.keep(lease, asked.prompt)
        self.metrics.prefilled(len(asked.prompt) - start, start)
        pages_all, available = self.slots.table.pages, self.slots.available_pages
        use = PoolUse(pages_all, pages_all - available)
        self.log.prefill_batch(len(asked.prompt) - start, start, monotonic() - began, self.live.phases(), use)
        generation.stamps.prefill_finished_wall = wall_s()
        return first

    def _carry(self, announce: Announce) -> Carry | None:
        """Who copies: the transfer engine that decode has registered its pool with, or we ourselves."""
        mooncake = self.mooncake
        if (mooncake is None) != (not announce.segment):
            raise KVTransferError(announce.room, "prefill and decode disagree about the transfer engine")
        if mooncake is None:
            return None
        return mooncake.carry(Peer(announce.segment, announce.base, self._peers[announce.pool]))

    async def _write(self, generation: Generation, slot: Slot, peer: Side, carry: Carry | None) -> int:
        generation.phase = Phase.TRANSFER
        room = _room(generation)
        route = Route(room, Side(self._pool, slot.pages), peer, self.gate, self._flight(), carry)
        try:
            return await write_prompt(route, len(generation.asked.prompt))
        except TransferError as error:
            raise KVTransferError(room, str(error)) from None
        except (ValueError, IndexError) as error:
            raise KVTransferError(room, f"decode announced pages that do not fit: {error}") from None

    def _flight(self) -> Flight | None:
        """What keeps a layer on the wire: a hook, or the time that a layer takes."""
        layer_s = self._service.layer_s
        if self.flight is not None or not layer_s:
            return self.flight

        async def fly(_room: int, _model: str, _layer: int) -> None:
            await asyncio.sleep(layer_s)

        return fly

    def _fail(self, generation: Generation, room: Room | None, error: KVTransferError) -> None:
        early = generation.phase is Phase.BOOTSTRAP
        if room is not None:
            room.settle(Failed(room.number, error.reason))
        asked = generation.asked
        text = (
            f"Prefill {'bootstrap' if early else 'transfer'} failed for request rank=0 req.rid={asked.rid!r}"
        )
        text = f"{text} req.bootstrap_room={_room(generation)} with exception {error}"
        self.log.failed(text)
        generation.end(Aborted(text, 500))
        self.metrics.transfer_failed(before_write=early)


def _room(generation: Generation) -> int:
    pair = generation.asked.bootstrap
    return pair.room if pair else 0


async def _until(moment: float) -> None:
    """Sleep; a moment that is past takes no time, not even a turn of the loop."""
    if (left := moment - monotonic()) > 0:
        await asyncio.sleep(left)
