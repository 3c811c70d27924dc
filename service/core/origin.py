"""Whose words these are: what the cross-talk detector asks of the shared index.

`provenance.py` answers. The two are apart because the index needs numpy and is one for the whole process,
while a detector is built from a rule set alone; the request's facts carry its place in the index.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Protocol

GRAM_BYTES: Final = 32
"""Long enough that prose of one hand is hardly another's, short enough for a line of code."""


class Hit(NamedTuple):
    """A k-gram of an answer that one other family of requests holds and nothing explains."""

    place: int  # where it stands in the answer, in normalised bytes
    family: int
    rid: str  # the newest request of that family that holds it
    foreign: bool  # of another tenant
    spoken: bool  # it stood in that request's answer, not in its prompt
    akin: bool  # the two prompts have a part in common


class Voice(Protocol):
    """One choice of one generation."""

    @property
    def hits(self) -> Sequence[Hit]:
        """What was found so far, in the order of the answer."""
        ...

    @property
    def explained(self) -> Collection[tuple[int, int]]:
        """Place and length, near hits, of what the own prompt holds, or many do: these bytes tell nothing."""
        ...

    @property
    def read(self) -> int:
        """Every gram that begins before this place has been looked at."""
        ...

    @property
    def chars(self) -> int:
        """What waits to be looked at."""
        ...

    def hear(self, text: str) -> None:
        """New text; it is looked at with that of all other voices at the next tick."""
        ...

    def catch_up(self, now: float) -> None:
        """Look at once: the answer is under suspicion, or too much waits."""
        ...

    def finish(self, now: float) -> None:
        """The answer is over: look at what is left, if that may still change something."""
        ...


class Origin(Protocol):
    """One request."""

    def speak(self) -> Voice:
        """A choice of a generation begins."""
        ...

    def suspect(self) -> None:
        """What this request says may be another's: it speaks against nobody."""
        ...
