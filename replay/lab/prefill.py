"""The prefill worker: bootstrap, one forward pass, the transfer, and an answer of one token.

    bootstrap   wait until decode has said where the KV must go
    waiting     wait for pages here and for the turn to compute
    running     the prompt through target and draft model
    transfer    layer by layer into decode's pool; then the first token goes over the bootstrap channel

Every failure reaches decode as `failed`, the router as SGLang's HTTP 500, and the count of failed
hand-overs.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic

from replay.lab import speculation
from replay.lab.admission import SlotQueue
from replay.lab.bootstrap import ABORTED, Announce, BootstrapServer, Done, Failed, KVTransferError, Room
from replay.lab.exposition import Metrics, Transfer
from replay.lab.hicache import Lease, NoCache, PrefixCache
from replay.lab.intake import Bootstrap, RequestError, Submission
from replay.lab.kvpool import KVPool, PageTable, Slot
from replay.lab.ledger import sampling_rng
from replay.lab.model import TinyLM
from replay.lab.scheduler import Aborted, Cached, Generation, LiveRequests, Phase, wall_s
from replay.lab.transfer import Gate, Side, open_gate, write_prompt

NO_ROOM = "Invalid request: Disaggregated request received without bootstrap room id."


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
        self.cache: PrefixCache | NoCache = NoCache(self.slots)

    def __repr__(self) -> str:
        """Show the live requests and the pool."""
        return f"<PrefillWorker {self.live} {self.slots}>"

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
            async with self._turn:
                first = self._compute(generation, lease)
            writing = monotonic()
            size_bytes = await self._write(generation, lease.slot, peer)
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

    def _compute(self, generation: Generation, lease: Lease) -> int:
        """Compute what the cache does not have, in both models."""
        asked, pages, start = generation.asked, lease.slot.pages, lease.cached_tokens
        generation.enter_forward()
        generation.cached = Cached(lease.device_tokens, lease.host_tokens)
        state = speculation.RequestState(list(asked.prompt), len(asked.prompt), pages, pages)
        state.temperature, state.rng = asked.temperature, sampling_rng(asked, 0)
        first = speculation.prefill(self.models[0], state, self._pool.target, start, lease.before("target"))
        speculation.prefill_draft(self.models[1], state, self._pool.draft, start, lease.before("draft"))
        self.cache.keep(lease, asked.prompt)
        self.metrics.prefilled(len(asked.prompt) - start)
        generation.stamps.prefill_finished_wall = wall_s()
        return first

    async def _write(self, generation: Generation, slot: Slot, peer: Side) -> int:
        generation.phase = Phase.TRANSFER
        try:
            return await write_prompt(
                Side(self._pool, slot.pages), peer, len(generation.asked.prompt), self.gate
            )
        except (ValueError, IndexError) as error:
            room = generation.asked.bootstrap.room if generation.asked.bootstrap else 0
            raise KVTransferError(room, f"decode announced pages that do not fit: {error}") from None

    def _fail(self, generation: Generation, room: Room | None, error: KVTransferError) -> None:
        early = generation.phase is Phase.BOOTSTRAP
        if room is not None:
            room.settle(Failed(room.number, error.reason))
        asked = generation.asked
        number = asked.bootstrap.room if asked.bootstrap else None
        text = (
            f"Prefill {'bootstrap' if early else 'transfer'} failed for request rank=0 req.rid={asked.rid!r}"
        )
        generation.end(Aborted(f"{text} req.bootstrap_room={number} with exception {error}", 500))
        self.metrics.transfer_failed(before_write=early)
