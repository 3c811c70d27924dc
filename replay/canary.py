"""Canaries: requests with a mark that nobody else can have written.

Each asks to repeat a line with a mark of 60 random bits. A mark in the answer to another request is somebody
else's text: cross-talk, by construction, without any model of language. A mark that does not come back is
only a lost canary: a model may refuse, so it is told and proves nothing.

    find    one regular expression over each answer, a look-up for each mark: 1 us a thousand characters

What it cannot see: foreign text of requests that are no canaries. A slot hands over its neighbour's text, so
one canary in k requests catches about one swap in k.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final

MARK: Final = re.compile(r"\bK7([0-9A-HJKMNP-TV-Z]{4})-([0-9A-HJKMNP-TV-Z]{4})-([0-9A-HJKMNP-TV-Z]{4})\b")
"""Crockford's base 32, which nobody misreads; the front says what it is."""

_SIGNS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SIGNS_OF_MARK: Final = 12


def mark(seed: int, name: str) -> str:
    """The mark of one canary; the same for the same plan."""
    bits = int.from_bytes(blake2b(f"{seed} {name}".encode(), digest_size=8).digest(), "big")
    signs = "".join(_SIGNS[bits >> (5 * place) & 31] for place in range(_SIGNS_OF_MARK))
    return f"K7{signs[:4]}-{signs[4:8]}-{signs[8:]}"


def body(own: str, path: str) -> dict[str, Any]:
    """A request whose answer is its mark, some times over: long enough to be caught half-way."""
    asked = f"Repeat this line eight times, one a line, and say nothing else:\nreference {own}"
    if path == "/generate":
        return {
            "text": f"{asked}\n",
            "sampling_params": {"max_new_tokens": 200, "temperature": 0},
            "stream": True,
        }
    plain = {"stream": True, "temperature": 0, "max_tokens": 200}
    if path == "/v1/completions":
        return plain | {"prompt": f"{asked}\n"}
    return plain | {"messages": [{"role": "user", "content": asked}]}


def marks(text: str) -> set[str]:
    """Every mark in a text."""
    return {found.group() for found in MARK.finditer(text)} if "K7" in text else set()


def foreign(texts: Iterable[tuple[str, str]], planted: Mapping[str, str]) -> dict[str, set[str]]:
    """Of answers (send id, text), whose marks each holds that are not its own; planted: mark -> send id."""
    leaks: dict[str, set[str]] = {}
    for name, text in texts:
        others = {planted[one] for one in marks(text) if planted.get(one, name) != name}
        if others:
            leaks[name] = others
    return leaks
