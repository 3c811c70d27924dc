"""What the sidecar says it saw, from its admin port: incidents with their attempts, and how many cases.

Only rids, levels and detectors are read: the join with the truth needs nothing else.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SeenAttempt:
    """One attempt as the sidecar judged it."""

    rid: str = ""
    level: str = "clean"
    kind: str = ""
    detector: str = ""
    accept_length: float | None = None
    second_opinion: bool = False
    """Taken back on a suspicion alone: suspect, and another attempt followed."""

    @property
    def verdict(self) -> bool:
        """Whether it was judged corrupt."""
        return self.level == "corrupt"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the sidecar recorded of one request; nothing recorded: no attempts."""

    rid: str
    outcome: str = ""
    attempts: tuple[SeenAttempt, ...] = ()

    @property
    def verdict(self) -> bool:
        """Whether an attempt was judged corrupt."""
        return any(one.verdict for one in self.attempts)

    @property
    def second_opinion(self) -> bool:
        """Whether an attempt was taken back on a suspicion alone."""
        return any(one.second_opinion for one in self.attempts)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the sidecar kept of the run."""

    seen: dict[str, Seen]
    cases: int
