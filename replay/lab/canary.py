"""Whose answer is it? Every request carries canaries, and a task whose right answer is known.

A canary is three neighbouring words of the right answer of one request. Prompts are drawn so that words
stand in an order of their own, so another prompt has the same three by chance only: 2e-5 for a pair of
requests. A canary of another request in an answer, and not in the answer's own prompt, is proof of a leak.

    right      the right answer
    leak       another request's canary: somebody reads what is not his
    silent     tokens that have no text, to the limit
    loop       the end repeats, or most of the answer does
    fluent     ends by itself, reads like an answer, is wrong: what no look at the text can tell
    garbled    anything else that is wrong

Cost: one set look-up a token.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import takewhile

from replay.lab.quality import SHORT_ANSWER_TOKENS, distinct_3_grams, tail_loops
from replay.lab.tasks import Task
from replay.lab.tokenizer import BOS, EOS, FIXED, PAD

CANARY_WORDS = 3

LEAST_DISTINCT = 0.5
"""Below this share of distinct 3-grams an answer is a loop; right answers have .91 and more."""

INVISIBLE_TAIL_TOKENS = 8
"""So many tokens without text in a row, up to the end, are silence and not a stray special token."""

Canary = tuple[int, ...]


class TextClass(StrEnum):
    """What an answer is."""

    RIGHT = "right"
    LEAK = "leak"
    SILENT = "silent"
    LOOP = "loop"
    FLUENT = "fluent"
    GARBLED = "garbled"


def canaries(ids: Sequence[int]) -> frozenset[Canary]:
    """Return all runs of three words; signs and instruction words are common to all prompts."""
    runs = (tuple(ids[at : at + CANARY_WORDS]) for at in range(len(ids) - CANARY_WORDS + 1))
    return frozenset(run for run in runs if min(run) >= len(FIXED))


class Witness:
    """Knows the canaries of all requests of a run."""

    def __init__(self) -> None:
        """Start with nobody known."""
        self._owners: dict[Canary, str] = {}

    def __repr__(self) -> str:
        """Count the canaries."""
        return f"<Witness {len(self._owners)} canaries>"

    def know(self, rid: str, task: Task) -> None:
        """Remember whose canaries these are; the first owner stays."""
        for canary in canaries(task.answer_ids):
            self._owners.setdefault(canary, rid)

    def leaked_from(self, rid: str, task: Task, answer: Sequence[int]) -> str | None:
        """Return whose answer this is made of, where it is not the request's own."""
        own = canaries(task.prompt_ids)
        for canary in sorted(canaries(answer) - own):
            owner = self._owners.get(canary)
            if owner not in {None, rid}:
                return owner
        return None


def classify(task: Task, answer: Sequence[int], leaked_from: str | None = None) -> TextClass:
    """Say what an answer is; the first that fits, in the order of the module docstring."""
    if tuple(answer) == task.answer_ids:
        return TextClass.RIGHT
    if leaked_from is not None:
        return TextClass.LEAK
    if _invisible_tail(answer) >= INVISIBLE_TAIL_TOKENS:
        return TextClass.SILENT
    if tail_loops(answer) or distinct_3_grams(answer) < LEAST_DISTINCT:
        return TextClass.LOOP
    if EOS in answer and len(answer) <= SHORT_ANSWER_TOKENS:
        return TextClass.FLUENT
    return TextClass.GARBLED


def _invisible_tail(answer: Iterable[int]) -> int:
    return sum(1 for _ in takewhile(lambda token: token in {PAD, BOS}, reversed(list(answer))))
