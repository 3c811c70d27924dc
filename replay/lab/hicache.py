"""The hierarchical cache of a prefill worker: a prefix cache with a host tier under it, as SGLang's HiCache.

    take     match the prompt, reserve pages for the rest, queue a load-back for what lies on the host only
    compute  the suffix, layer by layer; layer n may read the prefix once the load-back has written layer n
    keep     full pages of the prompt go to the tree and are backed up on the host (write-through)
    give     the pages are the tree's alone; under pressure the coldest lose their device copy

The load-back runs in a thread of its own and writes target layers first, then the draft's, so that loading
layer n+1 overlaps computing layer n. That needs one sync point a layer, and it is the switch (`Mode`):

    off            no host tier; the device part of the cache only
    fixed          wait for the layer before reading it
    unfixed        read on, ready or not: the KV of whoever had the page before (sglang#22811)
    index_unfixed  wait for the target's layers, not for the draft's
    index_lost     the draft's pages are not brought back at all: acceptance collapses with the host hits, the
                   text stays right, and only a flush cures it (sglang#32176)

What was computed from a page that was not ready is tainted, and so is all that is computed from that later.

Cost: a device-to-host or host-to-device copy of one page and both models is 72 KiB, about 20 us.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from replay.lab.admission import SlotQueue
from replay.lab.kvpool import KVPool, Slot
from replay.lab.loadback import HostTier, LoadBack, Loader
from replay.lab.model import PAGE_TOKENS
from replay.lab.prefix import Node, PrefixTree, use

TAINTS = {"target": "hicache", "draft": "hicache_index"}
"""What the ledger calls a request that read a page of that model before it was ready."""


class Mode(StrEnum):
    """What a reader of a page does while its load-back runs."""

    OFF = "off"
    FIXED = "fixed"
    UNFIXED = "unfixed"
    INDEX_UNFIXED = "index_unfixed"
    INDEX_LOST = "index_lost"

    def waits(self, model: str) -> bool:
        """Whether the sync point of this model is in place."""
        return self is not Mode.UNFIXED and (self is not Mode.INDEX_UNFIXED or model == "target")


@dataclass(slots=True)
class Lease:
    """One request's pages in the prefill pool while it is computed and handed over."""

    slot: Slot
    own: Slot
    """Pages that were reserved for this request; the rest of `slot` is shared."""
    nodes: list[Node] = field(default_factory=list)
    device_tokens: int = 0
    host_tokens: int = 0
    mode: Mode = Mode.OFF
    loads: list[LoadBack] = field(default_factory=list)
    taint: str | None = None

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that need no computing."""
        return self.device_tokens + self.host_tokens

    def before(self, model: str) -> Callable[[int], None] | None:
        """Return what a forward pass must call before it reads a layer; nothing where all is there."""
        if not self.loads:
            return None

        def sync(layer: int) -> None:
            for load in self.loads:
                if self.mode.waits(model):
                    load.wait(model, layer)
                elif not load.ready(model, layer):
                    self.taint = self.taint or TAINTS[model]

        return sync


@dataclass(slots=True)
class CacheCounts:
    """What the cache has done since the start, in tokens."""

    input: int = 0
    device_hit: int = 0
    host_hit: int = 0
    loaded: int = 0
    backed_up: int = 0
    tainted_requests: int = 0
    last_hit_rate: float = 0.0
    """Of the prefill before now."""

    @property
    def hit_rate(self) -> float:
        """Share of all prompt tokens that came from the cache."""
        total = self.input + self.device_hit + self.host_hit
        return (self.device_hit + self.host_hit) / total if total else 0.0


class NoCache:
    """Every prompt is computed from its first token: what a worker does without a prefix cache."""

    def __init__(self, slots: SlotQueue) -> None:
        """Take pages from `slots`."""
        self._slots = slots

    async def take(self, prompt: Sequence[int]) -> Lease:
        """Reserve pages for a whole prompt."""
        slot = await self._slots.take(len(prompt))
        return Lease(slot, slot)

    def keep(self, lease: Lease, prompt: Sequence[int]) -> None:
        """Keep nothing."""

    def give(self, lease: Lease) -> None:
        """Free all pages."""
        self._slots.give(lease.own)


class PrefixCache:
    """Hands out leases: the pages of a prompt, the beginning of it computed already where that is known."""

    def __init__(self, slots: SlotQueue, pool: KVPool, host_pages: int = 0, mode: Mode = Mode.OFF) -> None:
        """Cache in `pool`, whose free pages `slots` hands out."""
        self.tree = PrefixTree(slots.table)
        self.counts = CacheCounts()
        self.host = HostTier.sized(pool.shape, host_pages)
        self.loader = Loader(pool, self.host) if host_pages else None
        self._pool = pool
        self._slots = slots
        self._entry = asyncio.Lock()
        self._mode = Mode.OFF
        self.mode = mode
        slots.reclaim = self.tree.reclaim
        slots.evictable = lambda: self.tree.evictable_pages

    def __repr__(self) -> str:
        """Show the tree and the mode."""
        return f"<PrefixCache {self.tree} {self.host} {self.mode}>"

    @property
    def mode(self) -> Mode:
        """What readers of loading pages do; can be changed at any time, from the next lease on."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if mode is not Mode.OFF and self.loader is None:
            raise ValueError("hicache needs host pages: start the worker with some")
        self._mode = mode

    def close(self) -> None:
        """End the loader."""
        if self.loader is not None:
            self.loader.close()

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses a page and no load-back runs."""
        return all(node.is_idle for node in self.tree.nodes())

    def flush(self) -> None:
        """Forget everything; nobody may be busy."""
        self.tree.flush()
        self.host.free[:] = reversed(range(self.host.pages))

    async def take(self, prompt: Sequence[int]) -> Lease:
        """Reserve pages for a prompt; waits while the pool is full.

        One caller at a time: if several waited with their prefixes held, they could wait for each other.
        """
        async with self._entry:
            nodes = self._usable(self.tree.match(prompt))
            use(nodes, 1)
            try:
                on_device = sum(node.page is not None for node in nodes) * PAGE_TOKENS
                own = await self._slots.take(len(prompt) - on_device)
            except BaseException:
                use(nodes, -1)
                raise
        lease = self._lease(nodes, own)
        self.counts.last_hit_rate = lease.cached_tokens / len(prompt)
        self.counts.input += len(prompt) - lease.cached_tokens
        self.counts.device_hit += lease.device_tokens
        self.counts.host_hit += lease.host_tokens
        return lease

    def keep(self, lease: Lease, prompt: Sequence[int]) -> None:
        """Give the tree what has just been computed, and back it up on the host."""
        taken = self.tree.insert(prompt, lease.slot.pages, lease.taint)
        use(taken, 1)
        lease.nodes += taken
        self.counts.tainted_requests += lease.taint is not None
        if self.mode is not Mode.OFF:
            for node in lease.nodes:
                self._back_up(node)

    def give(self, lease: Lease) -> None:
        """End a lease: pages that the tree did not take are free again."""
        use(lease.nodes, -1)
        kept = {node.page for node in lease.nodes}
        self._slots.give(Slot(tuple(page for page in lease.own.pages if page not in kept)))

    def _usable(self, nodes: list[Node]) -> list[Node]:
        """Cut a match where the host would be needed and there is no host tier."""
        if self.mode is not Mode.OFF:
            return nodes
        return [node for node in nodes if node.page is not None]

    def _lease(self, nodes: list[Node], own: Slot) -> Lease:
        """Lay out the slot: shared pages first, those to be loaded among them, then the request's own."""
        spare = list(own.pages)
        pairs, loading = [], []
        for node in nodes:
            if node.page is None and node.host is not None:
                node.page = spare.pop(0)
                pairs.append((node.host, node.page))
                loading.append(node)
        if pairs and self.loader is not None:
            lost = self.mode is Mode.INDEX_LOST
            job = self.loader.load(pairs, ("target",) if lost else ("target", "draft"))
            self.counts.loaded += len(pairs) * PAGE_TOKENS
            for node in loading:
                node.load = job
                node.taint = node.taint or (TAINTS["draft"] if lost else None)
        lease = Lease(Slot((*(node.page for node in nodes if node.page is not None), *spare)), own, nodes)
        lease.host_tokens = len(loading) * PAGE_TOKENS
        lease.device_tokens = (len(nodes) - len(loading)) * PAGE_TOKENS
        lease.mode = self.mode
        lease.loads = _unfinished(nodes)
        lease.taint = next((node.taint for node in nodes if node.taint), None)
        return lease

    def _back_up(self, node: Node) -> None:
        """Copy a device page to the host, unless it lies there or is itself still being loaded."""
        if node.host is not None or node.page is None or not self._make_room():
            return
        node.host = at = self.host.free.pop()
        self.host.target[:, :, at] = self._pool.target[:, :, node.page]
        self.host.draft[:, :, at] = self._pool.draft[:, :, node.page]
        self.counts.backed_up += PAGE_TOKENS

    def _make_room(self) -> bool:
        if not self.host.free and (cold := self.tree.coldest_host()) is not None and cold.host is not None:
            self.host.free.append(cold.host)
            self.tree.drop_host(cold)
        return bool(self.host.free)


def _unfinished(nodes: Sequence[Node]) -> list[LoadBack]:
    """Return the load-backs that still write into these nodes, each once."""
    loads = {id(node.load): node.load for node in nodes if isinstance(node.load, LoadBack)}
    return [load for load in loads.values() if not load.finished]
