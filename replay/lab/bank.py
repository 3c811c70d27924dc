"""Short prompts with known answers for the races, and what another request's KV does to an answer.

Copy tasks of a few words whose answer is cut at 16 tokens. All have the same number of pages, so a slot that
was freed fits the next request exactly, as slots of long contexts cut into chunks do; the pages' order is
the same too. What a late write does to a victim is then a whole prompt in place of another: the model says
which answers change, so the simulator need not guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from replay.lab.kvpool import pages_for
from replay.lab.speculation import (
    DRAFT_TOKENS,
    RequestState,
    Speculator,
    cut,
    load_models,
    pages_needed,
    private_request,
    private_speculator,
)
from replay.lab.tasks import sample
from replay.lab.tokenizer import EOS

ANSWER_TOKENS = 16
PROMPT_PAGES = 3
SLOT_PAGES = 4
SCALE = 0.4
"""Size of the tasks, see `tasks.body`: 12 to 26 words to copy."""


@dataclass(frozen=True, slots=True, repr=False)
class Prompt:
    """One prompt, what the model answers, and in how many verify steps."""

    tokens: tuple[int, ...]
    answer: tuple[int, ...]
    steps: int

    def __repr__(self) -> str:
        return f"<Prompt {len(self.tokens)} tokens, answer {len(self.answer)} in {self.steps} steps>"


@dataclass(slots=True, repr=False)
class Bank:
    """Prompts by number."""

    prompts: tuple[Prompt, ...]
    _known: dict[tuple[int, int, int], bool] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Bank of {len(self.prompts)}>"

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def steps(self) -> tuple[int, ...]:
        """Verify steps of each answer."""
        return tuple(prompt.steps for prompt in self.prompts)

    def changes(self, victim: int, writer: int, steps_done: int) -> bool:
        """Whether the victim's answer changes if the writer's KV lands after so many of its verify steps."""
        key = (victim, writer, steps_done)
        if key not in self._known:
            self._known[key] = _changes(self.prompts[victim], self.prompts[writer], steps_done)
        return self._known[key]

    def share_changed(self, steps_left: int, samples: int, seed: int) -> float:
        """Return how often an answer with so many steps to go changes, over random pairs."""
        rng = np.random.default_rng((seed, steps_left))
        fit = [at for at, prompt in enumerate(self.prompts) if prompt.steps >= steps_left]
        pairs = [(rng.choice(fit), int(rng.integers(len(self)))) for _ in range(samples if fit else 0)]
        hits = [self.changes(int(one), other, self.prompts[one].steps - steps_left) for one, other in pairs]
        return sum(hits) / len(hits) if hits else 0.0


@cache
def make_bank(size: int, seed: int) -> Bank:
    """Draw prompts of the one size and answer them. About 15 ms a prompt."""
    rng = np.random.default_rng((seed, size))
    prompts: list[Prompt] = []
    while len(prompts) < size:
        tokens = sample(rng, "copy", SCALE).prompt_ids
        room = pages_for(len(tokens) + ANSWER_TOKENS + DRAFT_TOKENS)
        if (pages_for(len(tokens)), room) == (PROMPT_PAGES, SLOT_PAGES):
            prompts.append(_answered(tokens))
    return Bank(tuple(prompts))


def _answered(tokens: Sequence[int]) -> Prompt:
    speculator, request = _prefilled(tokens)
    steps = _finish(speculator, request)
    return Prompt(tuple(tokens), tuple(cut(request.answer, ANSWER_TOKENS)), steps)


def _changes(victim: Prompt, writer: Prompt, steps_done: int) -> bool:
    speculator, request = _prefilled(victim.tokens)
    for _ in range(steps_done):
        speculator.step(request)
    donor, _ = _prefilled(writer.tokens)
    pages = list(range(PROMPT_PAGES))
    speculator.target_pool[:, :, pages] = donor.target_pool[:, :, pages]
    speculator.draft_pool[:, :, pages] = donor.draft_pool[:, :, pages]
    _finish(speculator, request)
    return tuple(cut(request.answer, ANSWER_TOKENS)) != victim.answer


def _prefilled(tokens: Sequence[int]) -> tuple[Speculator, RequestState]:
    request = private_request(tokens, ANSWER_TOKENS)
    speculator = private_speculator(*load_models(), pages_needed(len(tokens) + ANSWER_TOKENS + DRAFT_TOKENS))
    speculator.prefill(request)
    return speculator, request


def _finish(speculator: Speculator, request: RequestState) -> int:
    """Step until the answer is whole; return how many steps that took."""
    steps = 0
    while EOS not in request.answer and len(request.answer) < ANSWER_TOKENS:
        speculator.step(request)
        steps += 1
    return steps
