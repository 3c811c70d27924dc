"""Takes out of a chat event what only we asked for: `usage` of a chunk, the usage event, the sglext event.

SGLang has two serialisers for chunks. Text goes through one that leaves an unset `usage` away; tool calls go
through one that writes `"usage":null` (and `"role":null`, which gives it away). The cut leaves what the
client would have got from each. All else goes out as it came: framing, comments, events we cannot read.

Cost: the usual chunk ends with a flat `usage` and is found by a few byte searches (0.6 us); the rest, a few
events a stream, is parsed.
"""

import re
from typing import Final

import msgspec

from service.core.dialects import splice
from service.core.dialects.protocol import Outgoing
from service.core.dialects.wire import UNDECODABLE
from service.core.sse import payload

# `usage` is the last member of the event, and flat or (with cached tokens reported) one level deep.
_LAST_USAGE: Final = re.compile(rb',"usage":\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}\}\n\n\Z')
# The event that brings nothing else, as the engine writes it, once a stream: found without parsing it.
_COUNT: Final = rb'"\w+":(?:\d+|null)'
_COUNTS: Final = rb"(?:%b(?:,%b)*)?" % (_COUNT, _COUNT)
_PLAIN_USAGE: Final = rb'"\w+":(?:\d+|null|\{%b\})' % _COUNTS
_USAGE_EVENT: Final = re.compile(
    rb'data: \{"id":"[^"\\]*","object":"[^"\\]*","created":\d+,"model":"[^"\\]*","choices":\[\]'
    rb',"usage":\{%b(?:,%b)*\}\}\n\n' % (_PLAIN_USAGE, _PLAIN_USAGE)
)
NULLS: Final = b'{"role":null'  # how the serialiser that spells out unset members begins a delta
OPEN: Final = 0x7B  # braces as numbers: searched for as one byte
CLOSE: Final = 0x7D
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
# Members that tell nothing by themselves: an event left with these alone was sent for what was cut.
_FRAME: Final = {b'"id"', b'"object"', b'"created"', b'"model"', b'"choices"', b'"system_fingerprint"'}
_EMPTY: Final = {b"[]", b"null"}

_Edit = tuple[int, int, bytes]
"""Where to cut, and what to leave there."""


def cut(event: bytes, outgoing: Outgoing) -> bytes:
    """One raw event less what only we asked for; b"" when nothing of worth is left.

    The event ends with `}}` and nothing opens after the `usage` at `at`: in valid JSON the two braces then
    close `usage` and the event itself.
    """
    at = event.rfind(b',"usage":{')
    if (
        at > 0
        and event[at - 2] == CLOSE
        and ((event.endswith(b"}}\n\n") and event.find(OPEN, at + 10) < 0) or _LAST_USAGE.match(event, at))
    ):
        if not outgoing.asked_growth:
            return event
        return event[:at] + (b',"usage":null}\n\n' if event.find(NULLS, 0, at) > 0 else b"}\n\n")
    if at >= 0 or b'"usage"' in event or b'"sglext"' in event:
        return _cut_members(event, outgoing)
    return event


def _cut_members(event: bytes, outgoing: Outgoing) -> bytes:
    if outgoing.asked_usage and _USAGE_EVENT.fullmatch(event):
        return b""
    if not _readable(event):
        return event
    text, whole = splice.unframed(event), event
    while (edit := _next_edit(text, outgoing)) is not None:
        start, end, filler = edit
        text, event = text[:start] + filler + text[end:], event[:start] + filler + event[end:]
    return event if event == whole or _is_worth_sending(text) else b""


def _readable(event: bytes) -> bool:
    data = payload(event)
    try:
        return data is not None and bool(_MEMBERS.decode(data))
    except UNDECODABLE:
        return False


def _next_edit(text: bytes, outgoing: Outgoing) -> _Edit | None:
    members = splice.members_of(text)
    bare = all(_value(text, member) in _EMPTY for member in members if member.key == b'"choices"')
    for member in members:
        if member.key == b'"usage"' and (outgoing.asked_usage if bare else outgoing.asked_growth):
            edit = _cut_usage(text, members, member, bare=bare)
        elif member.key == b'"sglext"' and outgoing.asked_spec:
            edit = _cut_spec(text, members, member)
        else:
            edit = None
        if edit is not None:
            return edit
    return None


def _cut_usage(
    text: bytes, members: list[splice.Member], usage: splice.Member, *, bare: bool
) -> _Edit | None:
    if not _value(text, usage).startswith(b"{"):
        return None
    if NULLS in text and not bare:
        return usage.value, usage.end, b"null"
    return *splice.without(members, usage), b""


def _cut_spec(text: bytes, members: list[splice.Member], sglext: splice.Member) -> _Edit | None:
    """The verify steps; with nothing else in it, `sglext` whole."""
    inner = splice.members_of(text[: sglext.end], sglext.value)
    for member in inner:
        if member.key == b'"spec_tokens_details"':
            doomed = (members, sglext) if len(inner) == 1 else (inner, member)
            return *splice.without(*doomed), b""
    return None


def _is_worth_sending(text: bytes) -> bool:
    members = splice.members_of(text)
    told = [member for member in members if _value(text, member) not in _EMPTY]
    return any(member.key not in _FRAME for member in told) or any(m.key == b'"choices"' for m in told)


def _value(text: bytes, member: splice.Member) -> bytes:
    return text[member.value : member.end].strip()
