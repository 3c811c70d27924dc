"""Our own case bundles, as `/api/cases/ID` gives them and `specguard cases export` writes them.

A bundle with its text gives the request itself; one of hashes gives its shape: messages, lengths, and the
chained hashes of 256 bytes each, which keep what shared a prefix with what.
"""

from collections.abc import Iterator
from typing import Any, Final

from replay.importers.source import Source, tokens_of
from replay.trace import TraceRequest

VERSION: Final = 1
BLOCK_TOKENS: Final = 64
"""Tokens in the 256 bytes that a hash stands for, about."""
BYTES_PER_TOKEN: Final = 4
PATHS: Final = {"sglang_generate": "/generate", "openai_chat": "/v1/chat/completions"}
HASH_BITS: Final = 0x7FFF_FFFF_FFFF_FFFF


def fits(head: str) -> bool:
    return '"delivered_bad_tokens"' in head and '"capture"' in head


def read(source: Source) -> Iterator[TraceRequest]:
    source.tally.units["at"] = "date and time"
    source.tally.block_tokens = BLOCK_TOKENS
    for number, bundle in enumerate(_bundles(source), 1):
        if bundle.get("v") != VERSION:
            raise source.fault(
                f"bundle {number} has version {bundle.get('v')!r}; this release reads {VERSION}"
            )
        request = bundle.get("request")
        if not isinstance(request, dict):
            raise source.fault(f"bundle {number} says nothing of its request")
        yield _request(source, bundle, request, number)


def _bundles(source: Source) -> Iterator[dict[str, Any]]:
    """One bundle, a list of them, or one a line."""
    try:
        value = source.whole()
    except ValueError:
        yield from (row for _, row in source.json_lines())
        return
    yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict))


def _request(source: Source, bundle: dict[str, Any], request: dict[str, Any], number: int) -> TraceRequest:
    messages = source.objects(request.get("messages"), "messages", number)
    chars = sum(source.count(one.get("chars", 0), "chars", number) for one in messages)
    attempts = source.objects(bundle.get("attempts"), "attempts", number)
    told = [tokens for one in attempts if (tokens := tokens_of(one.get("tokens"))) is not None]
    wanted = tokens_of(request.get("max_tokens"))
    body = request.get("body")
    if body is None:
        source.tally.note("bundles without text: lengths are counted in characters, four to a token")
    return TraceRequest(
        id=str(bundle.get("rid") or number),
        at_s=source.moment(bundle.get("at"), "at", number),
        path=PATHS.get(str(request.get("dialect")), "/v1/chat/completions"),
        prompt_tokens=None if body is not None else -(-chars // BYTES_PER_TOKEN),
        output_tokens=max(told, default=None) if wanted is None else wanted,
        blocks=tuple(block for one in messages for block in _blocks(source, one.get("blocks"), number)),
        body=body if isinstance(body, dict) else None,
    )


def _blocks(source: Source, hashes: Any, number: int) -> list[int]:  # noqa: ANN401 - as it was read
    try:
        return [int(block, 16) & HASH_BITS for block in hashes or ()]
    except (TypeError, ValueError):
        raise source.fault("blocks must be hexadecimal hashes", number) from None
