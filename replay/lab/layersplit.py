"""LayerSplit: context-parallel prefill whose ranks keep the KV of some layers each, and lend them in turn.

Rank r of R keeps the layers n with n mod R = r: 1/R of the KV. A prompt's new tokens are split among the
ranks; the cached prefix of layer n lies with its owner only and is broadcast while layer n-1 computes:

    owner's thread   for its layers, in order: copy the prefix of layer n into every peer's buffer n mod 2
    every rank       qkv of its own places; new K and V into every rank's buffer; wait for layer n; attend
    owner            keeps the new K and V of its layers

Each rank has two buffers of one layer, so the memory beside its share does not grow with the depth. A buffer
is written again, two layers later, when its reader says that it is done. The one wait that the postmortem's
prototype could miss is the switch: without `wait_for_broadcast` a rank that is ahead of the owner attends
to what the buffer holds, the prefix of two layers before.

`late_layer` makes that certain without luck: the owner sends that layer only when every peer has asked for
it (with the wait) or is done with it (without).

This module is one rank: `python -m replay.lab.layersplit SPEC`, started by `replay.lab.layersplit_group`.
Every wait ends after WAIT_S with an error that names what did not come; standard input is a lifeline.
"""

import os
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from replay.lab.model import PAGE_TOKENS, TARGET_PATH, Floats, TinyLM, Weights
from replay.lab.speculation import choose
from replay.lab.splitmap import (
    BUFFERS,
    DONE,
    KV,
    PREFIX,
    WANT,
    Board,
    Geometry,
    PeerGoneError,
    RankMemory,
)


class Spec(msgspec.Struct, frozen=True):
    """All that a rank is told at its start. Descriptors are inherited ones."""

    rank: int
    ranks: int
    pages: int
    memory: list[int]
    control: int
    peers: dict[int, int]
    """A socket to each other rank."""


class Job(msgspec.Struct, frozen=True):
    """One prompt to compute; its first `start` tokens are cached."""

    number: int
    tokens: list[int]
    start: int
    pages: list[int]
    wait_for_broadcast: bool = True
    late_layer: int | None = None


class Report(msgspec.Struct, frozen=True):
    """What one rank did."""

    rank: int
    token: int | None
    """The first answer token, from the rank that has the last place."""
    unready_layers: list[int]
    """Layers that were read before their broadcast had come."""
    awaited_layers: list[int]
    """Layers that had not come when they were needed, and were waited for."""
    kept_bytes: int
    buffer_bytes: int


class Rank:
    """One rank at work."""

    def __init__(
        self, rank: int, geometry: Geometry, memory: Sequence[RankMemory], board: Board, model: TinyLM
    ) -> None:
        """Compute with `model` over everybody's `memory`."""
        self.rank = rank
        self.geometry = geometry
        self.memory = memory
        self.board = board
        self._model = model

    def __repr__(self) -> str:
        """Show rank and layers."""
        return f"<Rank {self.rank} keeps layers {list(self.geometry.layers_of(self.rank))}>"

    @property
    def others(self) -> list[int]:
        """All ranks but this one."""
        return [rank for rank in range(self.geometry.ranks) if rank != self.rank]

    def prefill(self, job: Job) -> Report:
        """Compute this rank's places while its layers are broadcast; both are over at the return."""
        failures: list[BaseException] = []
        lending = threading.Thread(target=self._lend_all, args=(job, failures), name="broadcast")
        lending.start()
        places = self.geometry.chunk(self.rank, job.start, len(job.tokens))
        store = SplitStore(self, job, places)
        logits = self._model.forward_in(job.tokens[: places.stop], places.start, store, last_only=True)
        lending.join()
        if failures:
            raise failures[0]
        last = places.stop == len(job.tokens)
        own = self.memory[self.rank]
        return Report(
            rank=self.rank,
            token=choose(logits[-1], 0.0, np.random.default_rng(0)) if last else None,
            unready_layers=store.unready,
            awaited_layers=store.awaited,
            kept_bytes=own.kept.nbytes,
            buffer_bytes=own.buffers.nbytes,
        )

    def prefix(self, job: Job, layer: int) -> Floats:
        """Return [k or v, place, head, dim] of a layer that this rank keeps."""
        places = np.arange(job.start)
        pages = np.array(job.pages)[places // PAGE_TOKENS]
        kept = self.memory[self.rank].kept[layer // self.geometry.ranks]
        found: Floats = kept[:, pages, places % PAGE_TOKENS]
        return found

    def keep(self, job: Job, layer: int, new: Floats) -> None:
        """Store [k or v, place, head, dim] of the new places of a layer that this rank keeps."""
        places = np.arange(job.start, len(job.tokens))
        pages = np.array(job.pages)[places // PAGE_TOKENS]
        self.memory[self.rank].kept[layer // self.geometry.ranks][:, pages, places % PAGE_TOKENS] = new

    def _lend_all(self, job: Job, failures: list[BaseException]) -> None:
        try:
            for layer in self.geometry.layers_of(self.rank) if job.start else ():
                self._lend(job, layer)
        except (PeerGoneError, OSError) as error:
            failures.append(error)

    def _lend(self, job: Job, layer: int) -> None:
        """Copy the prefix of one layer into the buffer of every peer that is done with what it holds."""
        prefix = self.prefix(job, layer)
        if layer == job.late_layer:
            self.board.wait(job.number, WANT if job.wait_for_broadcast else DONE, layer, self.others)
        for peer in self.others:
            if layer >= BUFFERS:
                self.board.wait(job.number, DONE, layer - BUFFERS, [peer])
            self.memory[peer].buffers[layer % BUFFERS][:, : job.start] = prefix
            self.board.say(job.number, PREFIX, layer, [peer])


class SplitStore:
    """One request's KV as one rank sees it during one prefill."""

    def __init__(self, rank: Rank, job: Job, places: range) -> None:
        """Serve the computation of `places`."""
        self.rank, self.job, self.places = rank, job, places
        self.unready: list[int] = []
        self.awaited: list[int] = []

    def __repr__(self) -> str:
        """Show the places."""
        return f"<SplitStore rank {self.rank.rank}, places {self.places.start} to {self.places.stop}>"

    def of_layer(self, layer: int) -> "SplitLayer":
        """Return one layer."""
        return SplitLayer(self, layer)


@dataclass(frozen=True, slots=True)
class SplitLayer:
    """One layer of it: new places are exchanged, the prefix comes from the owner."""

    store: SplitStore
    layer: int

    def write(self, keys: Floats, values: Floats) -> None:
        """Put the new K and V of this rank's places into everybody's buffer."""
        rank, job, places = self.store.rank, self.store.job, self.store.places
        if self.layer >= BUFFERS:
            rank.board.wait(job.number, DONE, self.layer - BUFFERS, rank.others)
        for memory in rank.memory:
            buffer = memory.buffers[self.layer % BUFFERS]
            buffer[0, places.start : places.stop] = keys
            buffer[1, places.start : places.stop] = values
        rank.board.say(job.number, KV, self.layer)

    def read(self) -> tuple[Floats, Floats]:
        """Return K and V of all places up to this rank's last; the buffer is free again then."""
        rank, job = self.store.rank, self.store.job
        buffer = rank.memory[rank.rank].buffers[self.layer % BUFFERS]
        owned = rank.geometry.owner(self.layer) == rank.rank
        if job.start and owned:
            buffer[:, : job.start] = rank.prefix(job, self.layer)
        elif job.start:
            self._await_prefix()
        rank.board.wait(job.number, KV, self.layer, rank.others if owned else range(rank.rank))
        if owned:
            rank.keep(job, self.layer, buffer[:, job.start : len(job.tokens)])
        keys, values = buffer[:, : self.store.places.stop].copy()
        rank.board.say(job.number, DONE, self.layer)
        return keys, values

    def _await_prefix(self) -> None:
        """The sync point: the prefix of this layer has come; or, without it, read whatever is there."""
        rank, job = self.store.rank, self.store.job
        owner = rank.geometry.owner(self.layer)
        ready = rank.board.heard(job.number, PREFIX, self.layer, owner)
        rank.board.say(job.number, WANT, self.layer, [owner])
        if job.wait_for_broadcast:
            if not ready:
                self.store.awaited.append(self.layer)
            rank.board.wait(job.number, PREFIX, self.layer, [owner])
        elif not ready:
            self.store.unready.append(self.layer)


def gathered(geometry: Geometry, memory: Sequence[RankMemory], pages: Sequence[int]) -> NDArray[np.float32]:
    """Return [layer, k or v, page, row, head, dim] of a request's pages, each layer from its owner."""
    at = np.array(pages)
    layers = (
        memory[geometry.owner(layer)].kept[layer // geometry.ranks][:, at]
        for layer in range(geometry.shape.layers)
    )
    return np.stack(list(layers))


def main(arguments: list[str]) -> None:
    """Run one rank until its control socket ends."""
    spec = msgspec.json.decode(arguments[1], type=Spec)
    threading.Thread(target=_lifeline, daemon=True, name="lifeline").start()
    model = TinyLM(Weights.load(TARGET_PATH))
    geometry = Geometry(model.shape, spec.ranks, spec.pages)
    memory = [RankMemory(fd, geometry, rank) for rank, fd in enumerate(spec.memory)]
    board = Board({rank: socket.socket(fileno=fd) for rank, fd in spec.peers.items()})
    rank = Rank(spec.rank, geometry, memory, board, model)
    with socket.socket(fileno=spec.control) as control, control.makefile("rb") as jobs:
        for line in jobs:
            job = msgspec.json.decode(line, type=Job)
            try:
                report = rank.prefill(job)
            except (PeerGoneError, OSError) as error:
                sys.stderr.write(f"rank {spec.rank}: {error}\n")
                os._exit(1)
            board.forget(job.number)
            control.sendall(msgspec.json.encode(report) + b"\n")


def _lifeline() -> None:
    """End with the supervisor, however it went."""
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv)
