"""What the lab's models are trained on: batches of tasks without end, and agents' steps among them.

Pure numpy, so that it is tested where torch is missing. The same seed gives the same batches.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from replay.lab.tasks import KINDS, Kind, sample
from replay.lab.workloads import Plan, sessions

Sample = tuple[tuple[int, ...], tuple[int, ...]]
"""A prompt and its answer."""

Tokens = NDArray[np.int64]
Mask = NDArray[np.bool_]

SORTED_SAMPLES = 160
"""Samples sorted by length at a time, so that a batch has little padding."""

AGENT_STEPS = 24
"""Steps of one session: its history comes to its longest."""


class Batches:
    """Endless batches of tasks, each of at most `batch_tokens` with its padding."""

    def __init__(self, seed: int, batch_tokens: int, kind_weights: Sequence[float]) -> None:
        """Seed the tasks apart from the weights."""
        self._rng = np.random.default_rng(1000 + seed)
        self._agents = agent_steps(2000 + seed)
        self._batch_tokens, self._kind_weights = batch_tokens, kind_weights
        self._waiting: list[list[Sample]] = []

    def __repr__(self) -> str:
        """Count what is drawn and not yet taken."""
        return f"<Batches {len(self._waiting)} waiting>"

    def next(self, scale: float, agents: float) -> tuple[Tokens, Mask]:
        """Return tokens [batch, time] and the mask [batch, time - 1] of places before an answer's tokens.

        `scale` is the size of the tasks, `agents` the share of agents' steps among them.
        """
        if not self._waiting:
            samples = sorted((self._sample(scale, agents) for _ in range(SORTED_SAMPLES)), key=_length)
            batches = list(_packed(samples, self._batch_tokens))
            self._waiting = [batches[at] for at in self._rng.permutation(len(batches))]
        return collate(self._waiting.pop())

    def _sample(self, scale: float, agents: float) -> Sample:
        if agents and self._rng.random() < agents:
            return next(self._agents)
        kind: Kind = KINDS[int(self._rng.choice(len(KINDS), p=self._kind_weights))]
        task = sample(self._rng, kind, scale)
        return task.prompt_ids, task.answer_ids


def agent_steps(seed: int) -> Iterator[Sample]:
    """Draw steps of agents without end, every third of each session."""
    for number in itertools.count():
        for step in next(sessions(seed, number, Plan(steps=AGENT_STEPS)))[number % 3 :: 3]:
            yield step.task.prompt_ids, step.task.answer_ids


def _length(sample: Sample) -> int:
    return len(sample[0]) + len(sample[1])


def _packed(samples: list[Sample], batch_tokens: int) -> Iterator[list[Sample]]:
    """Cut sorted samples into batches."""
    batch: list[Sample] = []
    for each in samples:
        if batch and _length(each) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(each)
    yield batch


def collate(samples: list[Sample]) -> tuple[Tokens, Mask]:
    """Pad samples at the right; see Batches.next."""
    time_steps = max(map(_length, samples))
    tokens = np.zeros((len(samples), time_steps), np.int64)
    mask = np.zeros((len(samples), time_steps - 1), np.bool_)
    for row, (prompt, answer) in enumerate(samples):
        tokens[row, : len(prompt) + len(answer)] = prompt + answer
        mask[row, len(prompt) - 1 : len(prompt) + len(answer) - 1] = True
    return tokens, mask
