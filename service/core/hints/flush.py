"""Whether bad KV is likely to have stayed in a prefix cache, and what to do then.

A worker keeps the KV of what it computed for requests that begin alike, whoever wrote over it meanwhile. In
SGLang 0.5.23, KV that was zeroed in place garbled the next request with that prefix, too, until the cache was
dropped; so a fault that is over still gives bad answers. This is likely where

- the text is of a kind that bad KV makes, under a cause that spoils KV, or under none that is known;
- and a part of this request's own prefix came out of the cache, or the same request went well elsewhere: then
  it was the state that was bad, and not the prompt.

It is not where the worker answered the same well later (its cache served that), where two workers said the
same, or where the worker is known to have no prefix cache.
"""

from typing import Final

from service.core.events import Kind
from service.core.hints.evidence import Evidence
from service.core.hints.signs import Cause

WAIT_S: Final = 30
"""The worker drops its cache only while nothing runs there, and waits so long for that."""
_BAD_KV: Final = frozenset({Kind.CROSSTALK, Kind.GARBLED, Kind.RARE_CHAR, Kind.REPETITION, Kind.SILENT})
_SPOILS_KV: Final = frozenset(
    {Cause.ABORT_RACE, Cause.DEFERRED_RELEASE, Cause.TRANSFER, Cause.NAN, Cause.NONE}
)
"""Causes after which KV may be wrong and still cached; others have a next step of their own, or none."""


def flush_step(cause: Cause, known: Evidence) -> str:
    """The next step that goes with the cause's own, with its price; "" where nothing calls for it."""
    if cause not in _SPOILS_KV or not _may_have_stayed(known):
        return ""
    why = (
        "its prefix came from the cache, which gives the same KV to the next request that begins so"
        if known.from_cache
        else "the next request that begins so may get the same KV from the cache"
    )
    where = " and ".join(known.workers) or "the worker"
    return (
        f"; {why}: take out of the router and POST /flush_cache?timeout={WAIT_S} on {where}"
        " (the price: every cached prefix there is computed anew, and nothing may run while it is dropped)"
    )


def _may_have_stayed(known: Evidence) -> bool:
    if known.kind not in _BAD_KV or known.same_elsewhere or known.clean_here or not known.caches:
        return False
    return known.from_cache or known.clean_elsewhere or bool(known.own_words)
