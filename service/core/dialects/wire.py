"""What the dialects share: schemas that read only what matters, and decoding that never raises on a response.

A batch of payloads is decoded as one JSON array, about half the cost of one by one; where that fails, one by
one, so that a broken event is `malformed` and its neighbours are not.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from service.core.dialects.protocol import BadRequest
from service.core.events import Delta

NAN_STOP: Final = "NaN happened"  # what SGLang says it matched when it stopped on NaN logits
NAN_FINISH: Final = "nan"
UNREADABLE: Final = Delta(malformed=True)

# What a decoder may raise: bad JSON or types, invalid UTF-8, nesting beyond the interpreter's stack.
UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_TYPE_NAME: Final = re.compile(r"[A-Za-z][\w.-]{0,63}")  # anything longer or stranger might be text


class Schema(msgspec.Struct, gc=False):
    """Reads the members it names and skips the rest. Trees of these hold no cycles, so no GC."""


class SpecTokens(Schema):
    """SGLang's totals of one request: `spec_tokens_details` of `sglext`, or the same keys in `meta_info`."""

    spec_num_correct_drafts: int | None = None
    spec_verify_ct: int | None = None


class Error(Schema):
    """An error written flat, as SGLang's HTTP errors are."""

    object: Any = None
    type: Any = None


T = TypeVar("T", bound=Schema)


def decode_all(
    many: msgspec.json.Decoder[list[T]], one: msgspec.json.Decoder[T], payloads: Sequence[bytes]
) -> Sequence[T | None]:
    """The payloads decoded, in order; None for one that cannot be."""
    try:
        decoded = many.decode(b"[" + b",".join(payloads) + b"]")
    except UNDECODABLE:
        decoded = []
    if len(decoded) == len(payloads):
        return decoded
    return [decode_one(one, payload) for payload in payloads]


def decode_one(one: msgspec.json.Decoder[T], payload: bytes) -> T | None:
    """One payload decoded; None where it cannot be."""
    try:
        return one.decode(payload)
    except UNDECODABLE:
        return None


def decode_request(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """A client's request; the refusal names the member at fault and quotes no value."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise BadRequest(f"mend the request: {error}") from None
    except UNDECODABLE:
        raise BadRequest("the request body must be one JSON object in UTF-8") from None


def error_type(error: object) -> str:
    """The engine's name for its error; only a name, never the message."""
    kind = error.get("type") if isinstance(error, dict) else None
    return kind if isinstance(kind, str) and _TYPE_NAME.fullmatch(kind) else "error"


def first_rid(rid: str | list[str] | None) -> str:
    """A client's rid; of a batch's, the first stands for all."""
    return (rid[0] if rid else "") if isinstance(rid, list) else rid or ""
