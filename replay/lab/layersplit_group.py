"""The ranks of a LayerSplit prefill as processes, and the unsplit run to hold them against.

    with RankGroup(ranks=2) as group:
        cached = group.prefill(first_turn)                   # from nothing
        again = group.prefill(second_turn, cached_tokens)    # the prefix is broadcast

The supervisor makes every rank's memory and all sockets before a rank exists; a rank that dies is named, and
no process, memory or descriptor outlives the group.

Cost: starting four ranks takes about 0.6 s of two cores; a prompt of 200 tokens then 15 ms.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Self

import msgspec
import numpy as np

from replay.lab.kvpool import pages_for
from replay.lab.layersplit import Job, Report, Spec, gathered
from replay.lab.model import PAGE_TOKENS, Floats
from replay.lab.speculation import (
    RequestState,
    cut,
    load_models,
    pages_needed,
    prefill_draft,
    private_speculator,
)
from replay.lab.splitmap import WAIT_S, Geometry, RankMemory, make_rank_memory
from replay.lab.tokenizer import EOS
from replay.lab.workloads import Plan, sessions

DEFAULT_PAGES = 64
STOP_S = 5.0
MAX_ANSWER_TOKENS = 120
LATE_LAYER = 0
"""The layer whose broadcast a check holds back; see the module docstring for what each does."""


class LayerSplitError(RuntimeError):
    """Ours: a rank has gone."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A computed prompt: the first answer token, the KV of all layers, and what the ranks report."""

    token: int
    kv: Floats
    reports: tuple[Report, ...]

    @property
    def unready_layers(self) -> tuple[int, ...]:
        """Layers that some rank read before they had come."""
        return tuple(sorted({layer for report in self.reports for layer in report.unready_layers}))


class RankGroup:
    """R ranks and the supervisor's end of each."""

    def __init__(self, ranks: int, pages: int = DEFAULT_PAGES) -> None:
        """Prepare; nothing is started before `start`."""
        self.geometry = Geometry(load_models()[0].shape, ranks, pages)
        self.memory: list[RankMemory] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._controls: list[socket.socket] = []
        self._number = 0

    def __repr__(self) -> str:
        """Count the ranks."""
        return f"<RankGroup {len(self.processes)} of {self.geometry.ranks} ranks>"

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Start every rank; a failure leaves nothing running."""
        ranks = range(self.geometry.ranks)
        descriptors = [make_rank_memory(self.geometry, rank) for rank in ranks]
        mesh = {pair: socket.socketpair() for pair in combinations(ranks, 2)}
        try:
            self.memory = [RankMemory(fd, self.geometry, rank) for rank, fd in enumerate(descriptors)]
            for rank in ranks:
                self._launch(rank, descriptors, mesh)
        except BaseException:
            self.stop()
            raise
        finally:
            for fd in descriptors:
                os.close(fd)
            for end in (end for pair in mesh.values() for end in pair):
                end.close()

    def stop(self) -> None:
        """End every rank. Safe to call twice."""
        for control in self._controls:
            control.close()
        for process in self.processes:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes, self._controls, self.memory = [], [], []

    def prefill(
        self,
        tokens: Sequence[int],
        cached_tokens: int = 0,
        *,
        first_page: int = 0,
        wait_for_broadcast: bool = True,
        late_layer: int | None = None,
    ) -> Prefilled:
        """Compute a prompt whose first `cached_tokens` are kept, in the same pages, from a call before."""
        new = len(tokens) - cached_tokens
        if new < self.geometry.ranks or cached_tokens < 0:
            raise ValueError(f"{new} new tokens are too few for {self.geometry.ranks} ranks")
        pages = [first_page + page for page in range(pages_for(len(tokens)))]
        if pages[-1] >= self.geometry.pages:
            raise ValueError(f"{len(tokens)} tokens do not fit in {self.geometry.pages} pages")
        self._number += 1
        job = Job(self._number, list(tokens), cached_tokens, pages, wait_for_broadcast, late_layer)
        reports = self._ask(job)
        (token,) = (report.token for report in reports if report.token is not None)
        return Prefilled(token, gathered(self.geometry, self.memory, pages), tuple(reports))

    def _ask(self, job: Job) -> list[Report]:
        line = msgspec.json.encode(job) + b"\n"
        try:
            for control in self._controls:
                control.sendall(line)
            return [self._report(rank) for rank in range(self.geometry.ranks)]
        except OSError as error:
            raise LayerSplitError(f"a rank is gone: {error}") from None

    def _report(self, rank: int) -> Report:
        with self._controls[rank].makefile("rb") as stream:
            line = stream.readline()
        if not line:
            raise LayerSplitError(f"rank {rank} is gone")
        return msgspec.json.decode(line, type=Report)

    def _launch(
        self,
        rank: int,
        descriptors: list[int],
        mesh: dict[tuple[int, int], tuple[socket.socket, socket.socket]],
    ) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(2 * WAIT_S)
        peers = {
            (high if low == rank else low): ends[low != rank].fileno()
            for (low, high), ends in mesh.items()
            if rank in {low, high}
        }
        spec = Spec(rank, self.geometry.ranks, self.geometry.pages, descriptors, theirs.fileno(), peers)
        process = subprocess.Popen(
            [sys.executable, "-m", "replay.lab.layersplit", msgspec.json.encode(spec).decode()],
            stdin=subprocess.PIPE,
            pass_fds=[*descriptors, theirs.fileno(), *peers.values()],
            start_new_session=True,
            env=_environment(),
        )
        theirs.close()
        self._controls.append(ours)
        self.processes.append(process)


def _environment() -> dict[str, str]:
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH")) if part)
    return {**os.environ, **single, "PYTHONPATH": path}


def unsplit(ranks: int, *turns: tuple[Sequence[int], int]) -> Prefilled:
    """Compute (prompt, cached tokens) turns in one process, in the ranks' chunks: the same bits."""
    target, _ = load_models()
    pages = pages_for(max(len(tokens) for tokens, _ in turns))
    geometry = Geometry(target.shape, ranks, pages)
    pool = target.new_pool(pages)
    logits = np.zeros((1, 1), np.float32)
    for tokens, cached in turns:
        for rank in range(ranks):
            places = geometry.chunk(rank, cached, len(tokens))
            logits = target.forward(tokens[: places.stop], places.start, pool, range(pages), last_only=True)
    return Prefilled(int(np.argmax(logits[-1])), pool, ())


def answer(tokens: Sequence[int], prefilled: Prefilled, max_tokens: int) -> list[int]:
    """Decode a prompt whose KV the ranks have computed."""
    target, draft = load_models()
    pages = range(pages_needed(len(tokens) + max_tokens))
    speculator = private_speculator(target, draft, len(pages))
    speculator.target_pool[:, :, : prefilled.kv.shape[2]] = prefilled.kv
    state = RequestState(list(tokens), len(tokens), pages, pages)
    prefill_draft(draft, state, speculator.draft_pool)
    state.tokens.append(prefilled.token)
    while EOS not in state.answer and len(state.answer) < max_tokens:
        speculator.step(state)
    return cut(state.answer, max_tokens)


@dataclass(slots=True)
class Check:
    """Split runs of second turns of agent sessions against unsplit ones."""

    ranks: int
    late_layer: int
    requests: int = 0
    identical: int = 0
    kv_bitwise: int = 0
    awaited: int = 0
    """Requests in which the wait had to wait."""
    unready_without_wait: int = 0
    wrong_without_wait: int = 0
    kept_bytes_a_rank: int = 0
    unsplit_bytes: int = 0
    buffer_bytes_a_rank: int = 0

    def run(
        self, group: RankGroup, first: Sequence[int], second: Sequence[int], other: Sequence[int]
    ) -> None:
        """Run one pair of turns, with the wait and without; another request comes between the turns."""
        cached = _shared_pages(first, second) * PAGE_TOKENS
        whole = unsplit(self.ranks, (first, 0), (second, cached))
        right = answer(second, whole, MAX_ANSWER_TOKENS)
        fixed, broken = (
            self._turn(group, (first, other, second), cached, wait=wait) for wait in (True, False)
        )
        self.requests += 1
        self.identical += answer(second, fixed, MAX_ANSWER_TOKENS) == right
        self.kv_bitwise += np.array_equal(_rows(whole.kv, second), _rows(fixed.kv, second))
        self.awaited += any(self.late_layer in report.awaited_layers for report in fixed.reports)
        self.unready_without_wait += self.late_layer in broken.unready_layers
        self.wrong_without_wait += answer(second, broken, MAX_ANSWER_TOKENS) != right
        self.kept_bytes_a_rank = max(report.kept_bytes for report in fixed.reports)
        self.buffer_bytes_a_rank = fixed.reports[0].buffer_bytes
        self.unsplit_bytes = sum(report.kept_bytes for report in fixed.reports)

    def _turn(
        self, group: RankGroup, prompts: tuple[Sequence[int], ...], cached: int, *, wait: bool
    ) -> Prefilled:
        first, other, second = prompts
        group.prefill(first)
        group.prefill(other, first_page=pages_for(len(second)))
        return group.prefill(second, cached, wait_for_broadcast=wait, late_layer=self.late_layer)


def check(ranks: int, requests: int, *, late_layer: int = LATE_LAYER, seed: int = 1) -> Check:
    """Check that many requests; draw them with `seed`."""
    layers = load_models()[0].shape.layers
    if late_layer >= layers:
        raise ValueError(f"there is no layer {late_layer}: the model has {layers}")
    found = Check(ranks, late_layer)
    plan = Plan(steps=6)
    with RankGroup(ranks) as group:
        for number in range(requests):
            first, second = (step.task.prompt_ids for step in next(sessions(seed, number, plan))[::5])
            (other, *_) = next(sessions(seed + 1, number, plan))
            found.run(group, first, second, other.task.prompt_ids)
    return found


def _rows(kv: Floats, tokens: Sequence[int]) -> Floats:
    """Return the rows with tokens, [layer, k or v, place, head, dim]."""
    rows: Floats = kv.reshape(*kv.shape[:2], -1, *kv.shape[4:])[:, :, : len(tokens)]
    return rows


def _shared_pages(first: Sequence[int], second: Sequence[int]) -> int:
    shared = next(at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1])
    return shared // PAGE_TOKENS
