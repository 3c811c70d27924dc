"""Speculative decoding: a draft model proposes, the target verifies, and no token depends on who proposed it.

The draft proposes k tokens greedily from its own KV pool; one forward pass of the target over the last
token and the proposals decides. At temperature 0 a proposal is accepted while it is the target's argmax.
Above 0 the proposal x is a point mass, so speculative sampling (Leviathan et al. 2023, arXiv:2211.17192)
accepts it with the target's own probability p(x) and otherwise draws from p without x: the emitted tokens
are distributed as p, whatever the draft.

An accept length (accepted + 1) counts the bonus token; its floor is 1. A row of NaN logits gives token 0,
as an argmax on a GPU does: corruption makes text wrong, never an exception.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from replay.lab.model import DRAFT_PATH, PAGE_TOKENS, TARGET_PATH, Floats, TinyLM, Weights
from replay.lab.tokenizer import EOS

DRAFT_TOKENS = 4
"""Draft tokens a step (k), as SGLang's own examples set --speculative-num-draft-tokens."""


@dataclass(slots=True)
class RequestState:
    """One request being decoded: its tokens so far, and the pages that it owns in each pool.

    The KV of all tokens but the last is in the target's pages when a step begins; `draft_done` says how
    many tokens the draft has seen.
    """

    tokens: list[int]
    prompt_len: int
    target_pages: Sequence[int]
    draft_pages: Sequence[int]
    temperature: float = 0.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    draft_done: int = 0

    def __repr__(self) -> str:
        """Show counts, never tokens."""
        return f"<RequestState prompt {self.prompt_len}, answer {len(self.tokens) - self.prompt_len} tokens>"

    @property
    def answer(self) -> list[int]:
        """The tokens after the prompt."""
        return self.tokens[self.prompt_len :]


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one verify step did. `new_tokens` are the accepted drafts and the target's own next token."""

    drafted: int
    accepted: int
    new_tokens: tuple[int, ...]


def pages_needed(tokens: int, draft_tokens: int = DRAFT_TOKENS) -> int:
    """Pages of a request that may grow to so many tokens: a verify step writes its drafts past the end."""
    return -(-(tokens + draft_tokens) // PAGE_TOKENS)


def choose(logits: Floats, temperature: float, rng: np.random.Generator) -> int:
    """Pick one token from a row of logits."""
    if temperature <= 0:
        return int(np.argmax(logits))  # argmax takes the first NaN: token 0
    odds = probabilities(logits, temperature)
    return 0 if odds is None else int(rng.choice(len(odds), p=odds))


def probabilities(logits: Floats, temperature: float) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """Softmax at a temperature above 0; None for a row with NaN."""
    if np.isnan(logits).any():
        return None
    scaled = logits.astype(np.float64) / temperature
    odds = np.exp(scaled - scaled.max())
    return np.asarray(odds / odds.sum())


def propose(
    draft: TinyLM, request: RequestState, pool: Floats, draft_tokens: int = DRAFT_TOKENS
) -> list[int]:
    """Continue greedily by k tokens, after catching up on the tokens that the draft has not seen."""
    tokens, seen = list(request.tokens), request.draft_done
    request.draft_done = len(tokens)
    for _ in range(draft_tokens):
        logits = draft.forward(tokens, seen, pool, request.draft_pages, last_only=True)
        seen = len(tokens)
        tokens.append(int(np.argmax(logits[-1])))
    return tokens[request.draft_done :]


def verify(
    target: TinyLM, request: RequestState, pool: Floats, drafts: Sequence[int]
) -> tuple[int, list[int]]:
    """Judge the drafts in one pass: how many are accepted, and the tokens to append."""
    tokens = [*request.tokens, *drafts]
    logits = target.forward(tokens, len(request.tokens) - 1, pool, request.target_pages)
    for at, draft in enumerate(drafts):
        own = _judge(logits[at], draft, request)
        if own != draft:
            return at, [*drafts[:at], own]
    return len(drafts), [*drafts, choose(logits[-1], request.temperature, request.rng)]


def _judge(logits: Floats, draft: int, request: RequestState) -> int:
    """Return the draft itself if it is accepted, else the token that takes its place."""
    if request.temperature <= 0:
        return int(np.argmax(logits))
    odds = probabilities(logits, request.temperature)
    if odds is None:
        return 0
    if request.rng.random() < odds[draft]:
        return draft
    odds[draft] = 0.0
    left = odds.sum()
    return int(request.rng.choice(len(odds), p=odds / left)) if left > 0 else draft


@dataclass(frozen=True, slots=True)
class Speculator:
    """A target and a draft model with their pools: prefill() once, then step() until the answer is over."""

    target: TinyLM
    draft: TinyLM
    target_pool: Floats
    draft_pool: Floats
    draft_tokens: int = DRAFT_TOKENS
    drafter: Callable[[RequestState, int], list[int]] | None = None
    """Proposes in place of the draft model."""

    def prefill(self, request: RequestState) -> int:
        """Compute the prompt in both pools, append the first answer token and return it."""
        first = prefill(self.target, request, self.target_pool)
        prefill_draft(self.draft, request, self.draft_pool)
        request.tokens.append(first)
        return first

    def step(self, request: RequestState) -> StepResult:
        """Draft, verify, append."""
        if self.drafter is not None:
            drafts = self.drafter(request, self.draft_tokens)
        else:
            drafts = propose(self.draft, request, self.draft_pool, self.draft_tokens)
        accepted, new_tokens = verify(self.target, request, self.target_pool, drafts)
        request.tokens += new_tokens
        return StepResult(len(drafts), accepted, tuple(new_tokens))


Sync = Callable[[int], None] | None
"""Called with each layer's number before a forward pass touches that layer's pages."""


def prefill(target: TinyLM, request: RequestState, pool: Floats, start: int = 0, before: Sync = None) -> int:
    """Compute the prompt's KV from `start` on in the target's pages; returns the first answer token."""
    logits = target.forward(
        request.tokens[: request.prompt_len],
        start,
        pool,
        request.target_pages,
        last_only=True,
        before=before,
    )
    return choose(logits[-1], request.temperature, request.rng)


def prefill_draft(
    draft: TinyLM, request: RequestState, pool: Floats, start: int = 0, before: Sync = None
) -> None:
    """Compute the prompt's KV from `start` on in the draft's pages."""
    draft.forward(
        request.tokens[: request.prompt_len], start, pool, request.draft_pages, last_only=True, before=before
    )
    request.draft_done = request.prompt_len


def cut(answer: Sequence[int], max_tokens: int) -> list[int]:
    """End an answer at its first `<eos>` (kept) or at max_tokens, whichever is first."""
    kept = list(answer[:max_tokens])
    return kept[: kept.index(EOS) + 1] if EOS in kept else kept


@cache
def load_models() -> tuple[TinyLM, TinyLM]:
    """Load the shipped target and draft once a process."""
    return TinyLM(Weights.load(TARGET_PATH)), TinyLM(Weights.load(DRAFT_PATH))


def reference_answer(prompt_ids: Sequence[int], max_tokens: int) -> list[int]:
    """Answer a prompt alone, greedily, on private pools: what a request would have said without any fault."""
    target, draft = load_models()
    request = private_request(prompt_ids, max_tokens)
    speculator = private_speculator(target, draft, len(request.target_pages))
    speculator.prefill(request)
    while EOS not in request.answer and len(request.answer) < max_tokens:
        speculator.step(request)
    return cut(request.answer, max_tokens)


def private_request(prompt_ids: Sequence[int], max_tokens: int) -> RequestState:
    """A request that owns the first pages of private pools."""
    pages = range(pages_needed(len(prompt_ids) + max_tokens + DRAFT_TOKENS))
    return RequestState(list(prompt_ids), len(prompt_ids), pages, pages)


def private_speculator(target: TinyLM, draft: TinyLM, pages: int) -> Speculator:
    """Both models on pools of their own."""
    return Speculator(target, draft, target.new_pool(pages), draft.new_pool(pages))
