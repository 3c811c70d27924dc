"""Where a gram of an answer may come from: what the cross-talk detector asks of the shared index.

`provenance.py` answers. The two are apart because the index needs numpy and a writer thread, and a detector
must be buildable from a rule set without either.
"""

from typing import NamedTuple, Protocol


class Trace(NamedTuple):
    """A gram of this answer that one other family holds, and this request's own prompt does not."""

    gram: int
    family: int
    rid: str  # the newest request of that family that holds it
    foreign: bool  # of another tenant
    spoken: bool  # it stood in that request's answer, not in its prompt
    akin: bool  # the two prompts have a part in common


class Origin(Protocol):
    """One request, as the index knows it."""

    @property
    def ready(self) -> bool:
        """Whether its own prompt is indexed: before that nothing can be told apart."""
        ...

    def hear(self, text: str) -> None:
        """New text of its answer, to be indexed in its turn."""
        ...

    def trace(self, data: bytes, at: int, now: float) -> Trace | None:
        """Who else holds the gram at `at` of this normalised text of the answer."""
        ...

    def suspect(self) -> None:
        """The answer may be another's: what it says speaks against nobody."""
        ...
