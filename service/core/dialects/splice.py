"""JSON edited as bytes: members put into a request, members cut out of an event, nothing else re-encoded.

Why bytes: a prompt may be a megabyte and a released event must stay the engine's own. Two facts make it
exact. A quote inside a JSON string is always escaped, so the raw bytes `,"usage":{` never occur in text,
only where a member begins. And where an object has a key twice, every reader we know takes the last.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OPENING: Final = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_LINE_END: Final = re.compile(rb"(\r\n|\n|\r)")
_DATA: Final = re.compile(rb"(?:\xef\xbb\xbf)?data(?::|$)")


class Member(NamedTuple):
    """Where one member of a JSON object lies: `text[start:end]`, and its value `text[value:end]`."""

    key: bytes  # as written, quotes included
    start: int
    value: int
    end: int


def put(body: bytes, members: Mapping[str, object]) -> bytes:
    """`body`, a JSON object, with these members; a key it already names is replaced.

    Costs one copy; the object is re-assembled from its raw members only where it names one of the keys.
    """
    opening = _OPENING.match(body)
    if not members or opening is None:
        return body
    if any(b'"%b"' % key.encode() in body for key in members):
        return msgspec.json.encode({**_OBJECT.decode(body), **members})
    comma = b"" if body[opening.end() : opening.end() + 1] == b"}" else b","
    return b"{" + msgspec.json.encode(members)[1:-1] + comma + body[opening.end() :]


def unframed(event: bytes) -> bytes:
    """A raw event with all that is not its data blanked out, at equal length: offsets stay true."""
    return b"".join(_blanked(piece) for piece in _LINE_END.split(event))


def members_of(text: bytes, at: int = 0) -> list[Member]:
    """The members of the object that begins at or after `at` in valid JSON; none where it is no object."""
    found: list[Member] = []
    depth, start, value, key = 0, at, 0, b""
    for token in _TOKEN.finditer(text, at):
        mark = token[0]
        if mark in b"{[":
            depth += 1
            start = token.end() if depth == 1 else start
        elif mark in b"}],":
            if depth == 1 and value:
                found.append(Member(key, start, value, _trimmed(text, token.start())))
                start, value = token.end(), 0
            depth -= mark != b","
            if not depth:
                break
        elif depth == 1 and not value:
            key, value = (key, token.end()) if mark == b":" else (mark, 0)
    return found


def without(members: list[Member], doomed: Member) -> tuple[int, int]:
    """The span to cut so that `doomed` and one comma are gone."""
    place = members.index(doomed)
    if place:
        return members[place - 1].end, doomed.end
    return doomed.start, members[1].start if len(members) > 1 else doomed.end


def _trimmed(text: bytes, end: int) -> int:
    return len(text[:end].rstrip(b" \t\r\n"))


def _blanked(line: bytes) -> bytes:
    if not line or line[0] in b"\r\n":
        return line
    field = _DATA.match(line)
    kept = line[field.end() :] if field else b""
    return b" " * (len(line) - len(kept)) + kept
