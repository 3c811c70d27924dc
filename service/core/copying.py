"""Copying: an answer that says again what its prompt holds, as agents do when they edit a file.

Its acceptance is near one and its repetitions are the prompt's own. The share of the answer's words that lie
in runs of eight which the prompt holds, at positions that advance: a loop comes back to the same position and
is none of that. Cost: 1 us a word; a guard asks when a verdict is about to be given, and not again before
`AGAIN_BYTES` more have come.
"""

import re
from typing import Final

WORD: Final = re.compile(r"[\u3400-\u9fff]|[^\W\d_]\w*|\d+|[^\w\s]")
GRAM: Final = 8
"""Words that are no coincidence."""

COPIES: Final = 0.6
"""Share from which an answer counts as copied (reference: detection.md 4)."""


PROMPT_CHARS: Final = 65_536
"""Of a long prompt the newest part is read: 15 ms at worst."""

NEWEST_BYTES: Final = 2048
"""Of the answer so much is looked for in the prompt; a loop that began before that is no copy."""

AGAIN_BYTES: Final = 2048


class CopyGuard:
    """Whether what an answer says now is copied: asked by a detector that is about to act on repetition."""

    __slots__ = ("_found_at",)

    def __init__(self) -> None:
        self._found_at = -AGAIN_BYTES  # bytes of the answer when it was last found to copy

    def excuses(self, prompt: str, tail: bytes | bytearray, at: int) -> bool:
        """`tail` is the answer up to its byte `at`."""
        if not prompt:
            return False
        if at - self._found_at < AGAIN_BYTES:
            return True
        newest = bytes(tail[-NEWEST_BYTES:]).decode("utf-8", "ignore")
        if not is_copy(prompt[-PROMPT_CHARS:], newest):
            return False
        self._found_at = at
        return True


def share(prompt: str, answer: str) -> float:
    """Of the answer's words, those copied from the prompt at advancing positions."""
    source, words = WORD.findall(prompt), WORD.findall(answer)
    if len(words) < GRAM or len(source) < GRAM:
        return 0.0
    places: dict[tuple[str, ...], list[int]] = {}
    for at in range(len(source) - GRAM + 1):
        places.setdefault(tuple(source[at : at + GRAM]), []).append(at)
    copied, last, covered = 0, -1, 0
    for at in range(len(words) - GRAM + 1):
        found = places.get(tuple(words[at : at + GRAM]))
        place = next((one for one in found if one > last), None) if found else None
        if place is not None:
            copied += min(GRAM, at + GRAM - covered)
            covered, last = at + GRAM, place
    return copied / len(words)


def is_copy(prompt: str, answer: str) -> bool:
    return bool(prompt) and share(prompt, answer) >= COPIES
