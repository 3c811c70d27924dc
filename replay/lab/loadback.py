"""The host tier of a prefix cache, and the thread that brings pages back from it.

A load-back is a job: pages of both models, target layers first, then the draft's, page by page, with a flag
for each layer once it is written. Who reads a layer waits for its flag; who does not wait reads what the page
held before (`replay.lab.hicache`). A hook (`Loader.gate`) holds a chosen layer, so no test needs luck, and
`page_delay_s` gives the link a bandwidth.

Cost: a copy of one page of both models, 72 KiB, takes about 20 us.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic, sleep

import numpy as np

from replay.lab.bootstrap import KVTransferError
from replay.lab.kvpool import KVPool, PoolShape
from replay.lab.model import Floats

LOAD_WAIT_S = 30.0
"""A layer that has not come after this long is not going to: the request fails by name instead of hanging."""

MAX_LOADS = 1024
"""Load-backs queued at once; a live request has at most one, and a worker holds at most 512 of those."""

Gate = Callable[["LoadBack", str, int], None]
"""Called by the loader before it writes a layer; a test or a scenario holds the chosen one here."""


class LoadBackError(KVTransferError):
    """A layer did not come from the host in time."""

    def __init__(self, model: str, layer: int, waited_s: float) -> None:
        """Name the layer."""
        super().__init__(0, f"HiCache load-back of {model} layer {layer} did not finish in {waited_s:g}s")


@dataclass(frozen=True, slots=True)
class HostTier:
    """Pages in host memory: one array a model with the axes of the pool."""

    target: Floats
    draft: Floats
    free: list[int]

    @classmethod
    def sized(cls, shape: PoolShape, pages: int) -> "HostTier":
        """Make an empty tier; untouched pages cost nothing."""
        host = PoolShape(shape.target, shape.draft, pages)
        target, draft = (np.zeros(axes, np.float32) for axes in (host.target_axes, host.draft_axes))
        return cls(target, draft, list(reversed(range(pages))))

    @property
    def pages(self) -> int:
        """Pages in all."""
        return int(self.target.shape[2])

    def __repr__(self) -> str:
        """Count the free pages."""
        return f"<HostTier {len(self.free)} of {self.pages} pages free>"


class LoadBack:
    """One job of the loader: pages to bring back, and a flag for each layer of each model."""

    def __init__(
        self,
        pairs: Sequence[tuple[int, int]],
        layers: dict[str, int],
        models: Collection[str] = ("target", "draft"),
        wait_s: float = LOAD_WAIT_S,
    ) -> None:
        """Load (host page, device page) `pairs` of these models; readers wait `wait_s` at most."""
        self._wait_s = wait_s
        self.models = models
        self.host_pages, self.device_pages = (list(side) for side in zip(*pairs, strict=True))
        self._done = {(m, at): threading.Event() for m, count in layers.items() for at in range(count)}
        self.wanted = {key: threading.Event() for key in self._done}
        """Set once somebody waits for that layer: what a hook can hold a write back for."""

    def __repr__(self) -> str:
        """Count pages and layers."""
        done = sum(flag.is_set() for flag in self._done.values())
        return f"<LoadBack {len(self.device_pages)} pages, {done} of {len(self._done)} layers>"

    @property
    def finished(self) -> bool:
        """Whether every layer of every model has been written."""
        return all(flag.is_set() for flag in self._done.values())

    def ready(self, model: str, layer: int) -> bool:
        """Whether this layer has been written."""
        return self._done[model, layer].is_set()

    def wait(self, model: str, layer: int) -> None:
        """Block until this layer has been written."""
        self.wanted[model, layer].set()
        if not self._done[model, layer].wait(self._wait_s):
            raise LoadBackError(model, layer, self._wait_s)

    def mark(self, model: str, layer: int) -> None:
        """Say that this layer is there."""
        self._done[model, layer].set()


class Loader:
    """The thread that copies pages from the host into the device pool, one job after the other."""

    def __init__(self, pool: KVPool, host: HostTier) -> None:
        """Start the thread."""
        self._sides = {"target": (host.target, pool.target), "draft": (host.draft, pool.draft)}
        self._jobs: queue.Queue[LoadBack | None] = queue.Queue(MAX_LOADS)
        self.gate: Gate = lambda _load, _model, _layer: None
        self.page_delay_s = 0.0
        """Least time of one page of one layer: the bandwidth of a real link, where it is above 0."""
        self.wait_s = LOAD_WAIT_S
        self.durations_s: deque[float] = deque(maxlen=MAX_LOADS)
        """How long the last jobs took, until somebody takes them away."""
        self._thread = threading.Thread(target=self._work, name="hicache-loader", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        """Count the waiting jobs."""
        return f"<Loader {self._jobs.qsize()} jobs waiting>"

    def load(
        self, pairs: Sequence[tuple[int, int]], models: Collection[str] = ("target", "draft")
    ) -> LoadBack:
        """Queue a job; pages of a model that is not named stay what they are."""
        layers = {model: len(device) for model, (_, device) in self._sides.items()}
        job = LoadBack(pairs, layers, models, self.wait_s)
        self._jobs.put_nowait(job)
        return job

    def close(self) -> None:
        """End the thread after the job in hand."""
        self._jobs.put_nowait(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            began = monotonic()
            for model, (host, device) in self._sides.items():
                for layer in range(len(device)):
                    self.gate(job, model, layer)
                    if model in job.models:
                        self._copy(job, host[layer], device[layer])
                    job.mark(model, layer)
            self.durations_s.append(monotonic() - began)

    def _copy(self, job: LoadBack, host: Floats, device: Floats) -> None:
        """Copy page by page, as the engine's per-page kernel does."""
        for source, destination in zip(job.host_pages, job.device_pages, strict=True):
            if self.page_delay_s:
                sleep(self.page_delay_s)
            device[:, destination] = host[:, source]
