"""N-gram drafting (prompt lookup): the second drafter, with no model and no KV of its own.

The last n tokens, n = 3, 2, 1, are looked up in the prompt and the answer so far; what followed the latest
earlier place is the draft, continued over the end of the text as a period. So no fault in the draft's pool
can touch it, and NaN in the target is drafted perfectly as soon as the output repeats: acceptance then rises
to 1 where a draft model's falls to 0.

Where nothing matches there is no draft: the step verifies one token and its accept length is 1.

Cost: one scan of the request's tokens for each n, 20 us for 200 tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay.lab.speculation import RequestState, Speculator

LONGEST = 3
"""Tokens of context; with two a prompt's lines are unique, so more adds nothing."""


@dataclass(frozen=True, slots=True)
class Drafter:
    """Draws drafts from a request's own tokens."""

    longest: int = LONGEST

    @property
    def name(self) -> str:
        """The name as an option."""
        return "ngram"

    def __call__(self, request: RequestState, draft_tokens: int) -> list[int]:
        """Continue the request by up to k tokens."""
        return lookup(request.tokens, draft_tokens, self.longest)

    def speculator(self, like: Speculator) -> Speculator:
        """Return the same engine with this drafter in place of the draft model."""
        return replace(like, drafter=self)


def lookup(tokens: Sequence[int], draft_tokens: int, longest: int = LONGEST) -> list[int]:
    """Return what followed the latest earlier place of the longest suffix that has one."""
    end = len(tokens)
    for size in range(min(longest, end - 1), 0, -1):
        suffix = tokens[end - size :]
        for at in range(end - size - 1, -1, -1):
            if tokens[at + size - 1] == suffix[-1] and tokens[at : at + size] == suffix:
                return _continued(tokens, at + size, draft_tokens)
    return []


def _continued(tokens: Sequence[int], at: int, count: int) -> list[int]:
    """Read on from `at`; behind the last token comes what has just been read."""
    draft: list[int] = []
    for place in range(at, at + count):
        draft.append(tokens[place] if place < len(tokens) else draft[place - len(tokens)])
    return draft
