"""Copying: an answer that says again what its prompt holds, as agents do when they edit a file.

Its acceptance is near one and its repetitions are the prompt's own. The share of the answer's words that lie
in runs of eight which the prompt holds, at positions that advance: a loop comes back to the same position and
is none of that. Cost: 1 us a word, once an answer.
"""

import re
from typing import Final

WORD: Final = re.compile(r"[\u3400-\u9fff]|[^\W\d_]\w*|\d+|[^\w\s]")
GRAM: Final = 8
"""Words that are no coincidence."""

COPIES: Final = 0.6
"""Share from which an answer counts as copied (reference: detection.md 4)."""


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
