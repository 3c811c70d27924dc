"""The fault matrix, measured: each fault at each onset on requests whose right answers are known.

For each request three live in one pool: the victim, a donor of nearly the same length, and one that has
ended and left its KV in free pages. All are brought to the onset once; then every fault starts from that
very state (`replay.lab.corruption.strike`, the code that a worker runs), and the victim goes on to its end.

    touched         the fault found what it needed and wrote
    answer_changed  the tokens differ from those of the same request without the fault
    accept_before   accept rate of the steps before the fault
    accept_6, accept_end            of the first six steps after it, and of all after it
    clean_accept_6, clean_accept_end    the same steps without the fault
    text            share of each class of `replay.lab.canary`, over touched requests

Deterministic: the same seed gives the same matrix on the same machine. Cost: about 40 ms a request and cell.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from replay.lab import corruption
from replay.lab.canary import TextClass, Witness, classify
from replay.lab.corruption import EXTENTS, PLACES, SOURCES, TRANSIENT_STEPS, Fault, Touch, Victim
from replay.lab.kvpool import Slot
from replay.lab.model import Floats
from replay.lab.ngram import Drafter
from replay.lab.speculation import (
    DRAFT_TOKENS,
    RequestState,
    Speculator,
    cut,
    load_models,
    pages_needed,
    private_speculator,
)
from replay.lab.tasks import KINDS, Task, sample
from replay.lab.tokenizer import EOS

MAX_TOKENS = 160
"""Cap of an answer: the longest right one has 97 tokens, so a loop shows as one."""

ONSETS_TOKENS = (1, 8, 20)
"""Answer tokens that are out when the fault strikes: at once, early, amid the shortest answers."""

DEFAULT_REQUESTS = 12
SEED = 4711
FIRST_STEPS = 6

ROLES = ("victim", "donor", "former")

PAGES_EACH = pages_needed(240 + MAX_TOKENS)
"""Pages of each of the three requests: the longest drawn prompt and its answer."""


def cells() -> list[Fault]:
    """Return every fault of the matrix."""
    usual = [Fault(source, place) for source, place in product(SOURCES, PLACES)]
    special: list[Fault] = []
    for source, place in product(SOURCES, PLACES):
        special += [Fault(source, place, extent) for extent in EXTENTS if extent not in {"all", "rows"}]
        special.append(Fault(source, place, "all", transient=True))
    nan_rows = [Fault("nan", place, "rows") for place in PLACES]
    return [*nan_rows, *usual, *special]


@dataclass(slots=True)
class Walk:
    """One request on its pages of a shared pool."""

    rid: str
    task: Task
    state: RequestState
    accepted: list[int] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the answer has ended or is as long as it may get."""
        return EOS in self.state.answer or len(self.state.answer) >= MAX_TOKENS

    @property
    def answer(self) -> list[int]:
        """The answer, cut at its end."""
        return cut(self.state.answer, MAX_TOKENS)

    @property
    def victim(self) -> Victim:
        """The request as a fault sees it."""
        return Victim(self.rid, self.state, Slot(tuple(self.state.target_pages)))

    def accept_rate(self, first: int, steps: int | None = None) -> float:
        """Accepted share of the drafts from step `first` on; the step that `<eos>` cuts short left out."""
        counted = self.accepted[first : len(self.accepted) - (EOS in self.state.answer)][:steps]
        return float(np.mean(counted)) / DRAFT_TOKENS if counted else float("nan")


def _state_copy(state: RequestState) -> RequestState:
    copy = RequestState(list(state.tokens), state.prompt_len, state.target_pages, state.draft_pages)
    copy.draft_done = state.draft_done
    return copy


class Bench:
    """A pool with a victim, a donor and a former tenant, kept as it was at the onset."""

    def __init__(self, tasks: Sequence[Task], at_tokens: int, drafter: Drafter | None = None) -> None:
        """Bring victim and donor to the onset, the former tenant to its end."""
        self.speculator: Speculator = private_speculator(*load_models(), 3 * PAGES_EACH)
        if drafter is not None:
            self.speculator = drafter.speculator(self.speculator)
        self.walks = [self._begun(at, task) for at, task in enumerate(tasks)]
        victim, donor, former = self.walks
        self._go(former, lambda walk: walk.is_over)
        for walk in (donor, victim):
            self._go(walk, lambda walk: walk.is_over or len(walk.state.answer) >= at_tokens)
        self.victim = victim
        self._state, self._accepted = _state_copy(victim.state), list(victim.accepted)
        self._bytes: tuple[Floats, Floats] = (
            self.speculator.target_pool.copy(),
            self.speculator.draft_pool.copy(),
        )

    def __repr__(self) -> str:
        """Show how far the victim is."""
        return f"<Bench {self._state!r}>"

    @property
    def target(self) -> Floats:
        """The target's pool: what a fault writes into."""
        return self.speculator.target_pool

    @property
    def draft(self) -> Floats:
        """The draft's pool."""
        return self.speculator.draft_pool

    @property
    def free(self) -> tuple[int, ...]:
        """Pages of the request that has ended."""
        return tuple(self.walks[2].state.target_pages)

    def run(self, fault: Fault | None, seed: Sequence[int] = ()) -> tuple[Walk, Touch | None]:
        """Go on from the onset to the end, with the fault or without."""
        self.target[:], self.draft[:] = self._bytes
        walk = Walk(self.victim.rid, self.victim.task, _state_copy(self._state), list(self._accepted))
        touch = None
        if fault is not None:
            live = [walk.victim, self.walks[1].victim]
            touch = corruption.strike(fault, seed, walk.victim, live, self, self.free)
        if touch is not None and touch.undo is not None:
            struck = len(walk.accepted)
            self._go(walk, lambda walk: walk.is_over or len(walk.accepted) >= struck + TRANSIENT_STEPS)
            touch.undo()
        self._go(walk, lambda walk: walk.is_over)
        return walk, touch

    def _begun(self, at: int, task: Task) -> Walk:
        pages = range(at * PAGES_EACH, (at + 1) * PAGES_EACH)
        state = RequestState(list(task.prompt_ids), len(task.prompt_ids), pages, pages)
        self.speculator.prefill(state)
        return Walk(ROLES[at], task, state)

    def _go(self, walk: Walk, until: Callable[[Walk], bool]) -> None:
        while not until(walk):
            walk.accepted.append(self.speculator.step(walk.state).accepted)


@dataclass(slots=True)
class Cell:
    """What one fault at one onset did to all requests."""

    fault: Fault
    onset_tokens: int
    touched: int = 0
    changed: int = 0
    rates: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    text: Counter[TextClass] = field(default_factory=Counter)

    def add(self, walk: Walk, clean: Walk, step: int, text: TextClass) -> None:
        """Count one touched request, struck before step `step`."""
        self.touched += 1
        self.changed += walk.answer != clean.answer
        self.text[text] += 1
        before = float(np.mean(walk.accepted[:step])) / DRAFT_TOKENS if step else float("nan")
        after = (walk.accept_rate(step, FIRST_STEPS), walk.accept_rate(step))
        self.rates.append((before, *after, clean.accept_rate(step, FIRST_STEPS), clean.accept_rate(step)))

    def row(self, requests: int) -> dict[str, Any]:
        """Return the cell as one line of the matrix."""
        names = ("accept_before", "accept_6", "accept_end", "clean_accept_6", "clean_accept_end")
        fault = self.fault
        return {
            "fault": fault.name,
            "kind": fault.source,
            "place": fault.place,
            "extent": fault.extent,
            "transient": fault.transient,
            "onset_tokens": self.onset_tokens,
            "requests": requests,
            "touched": self.touched,
            "answer_changed": self.changed,
            **dict(zip(names, _means(self.rates), strict=True)),
            "text": {str(name): self.text[name] for name in TextClass},
        }


def _means(rates: Sequence[tuple[float, ...]]) -> list[float | None]:
    """Mean of each column over what is a number; None where nothing is."""
    columns = [[rate for rate in column if not np.isnan(rate)] for column in zip(*rates, strict=True)]
    columns = columns or [[]] * 5
    return [round(float(np.mean(column)), 3) if column else None for column in columns]


def drawn(requests: int, seed: int = SEED) -> Iterator[tuple[Task, Task, Task]]:
    """Draw victims of all kinds, each with a donor, the nearest in length of nine, and a former tenant."""
    rng = np.random.default_rng(seed)
    for at in range(requests):
        victim = sample(rng, KINDS[at % len(KINDS)])
        others = sorted((sample(rng) for _ in range(9)), key=lambda task: _distance(task, victim))
        yield victim, others[0], others[-1]


def _distance(one: Task, other: Task) -> int:
    return abs(len(one.prompt_ids) - len(other.prompt_ids))


def measure(
    requests: int = DEFAULT_REQUESTS,
    *,
    faults: Sequence[Fault] | None = None,
    onsets: Sequence[int] = ONSETS_TOKENS,
    seed: int = SEED,
    drafter: Drafter | None = None,
    told: Callable[[int, int], None] = lambda _done, _of: None,
) -> dict[str, Any]:
    """Measure the matrix; `told` hears how many (request, onset) pairs are done."""
    grid = [[Cell(fault, onset) for fault in faults or cells()] for onset in onsets]
    clean: Counter[TextClass] = Counter()
    pairs = list(product(drawn(requests, seed), enumerate(onsets)))
    for done, (tasks, (at, onset)) in enumerate(pairs):
        told(done, len(pairs))
        clean[_strike_all(tasks, onset, grid[at], seed, drafter)] += at == 0
    rows = [cell.row(requests) for column in grid for cell in column]
    return {
        "seed": seed,
        "requests": requests,
        "drafter": drafter.name if drafter else "model",
        "clean_text": {str(name): clean[name] for name in TextClass},
        "cells": rows,
    }


def _strike_all(
    tasks: tuple[Task, Task, Task], onset: int, column: Sequence[Cell], seed: int, drafter: Drafter | None
) -> TextClass:
    """Run one request under every fault of one onset; return what its clean answer is."""
    bench = Bench(tasks, onset, drafter)
    witness = Witness()
    for walk in bench.walks:
        witness.know(walk.rid, walk.task)
    clean, _ = bench.run(None)
    for cell in column:
        walk, touch = bench.run(cell.fault, (seed, onset))
        if touch is not None and not bench.victim.is_over:
            owner = witness.leaked_from(walk.rid, walk.task, walk.answer)
            cell.add(walk, clean, len(bench.victim.accepted), classify(walk.task, walk.answer, owner))
    return classify(clean.task, clean.answer)
