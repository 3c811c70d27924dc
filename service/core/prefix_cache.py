"""Whether a session's turns hit the cached prefix as they should.

A turn of a session begins with the turn before it, so about that turn's prompt should be found cached, less
what falls out of the last page. A turn that finds nothing means that the prefix was dropped, or that the turn
went elsewhere: on one worker, a giant prefill nearby may have pushed it out.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

GIANT_TOKENS: Final = 32_768
"""A prefill of this size holds a worker for seconds, and makes room for itself in the cache."""
MIN_TOKENS: Final = 1024
"""Of the turn before: shorter prefixes may be gone for ordinary reasons."""


class Turn(msgspec.Struct, frozen=True):
    """What the engine reported of one turn."""

    prompt_tokens: int
    cached_tokens: int


class ZeroHit(msgspec.Struct, frozen=True):
    """A turn that found nothing of what the turn before had left."""

    turn: int  # counted from 1
    missed_tokens: int  # at least
    hint: str = ""


def zero_hits(turns: Sequence[Turn]) -> tuple[ZeroHit, ...]:
    """The turns of one session, in order, that hit nothing."""
    found = []
    for place in range(1, len(turns)):
        before, turn = turns[place - 1], turns[place]
        expected = min(before.prompt_tokens, turn.prompt_tokens)
        if turn.cached_tokens == 0 and expected >= MIN_TOKENS:
            hint = "giant_prefill_nearby" if turn.prompt_tokens >= GIANT_TOKENS else ""
            found.append(ZeroHit(place + 1, expected, hint))
    return tuple(found)
