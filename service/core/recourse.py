"""What can be done about a generation that must not be delivered: make it again, or end loudly.

Asked by the monitor once a verdict stands or the wire broke; it knows the request's past generations, the
budget that all requests share, and the governor of early closes. It never decides whether something is bad.
"""

from typing import Final

from service.core.desk import Desk
from service.core.dialects.protocol import Dialect
from service.core.events import UNKNOWN, Fail, Guilty, Level, Restart
from service.core.generation import Generation
from service.core.policy import RoutePolicy
from service.core.record import Record
from service.core.retry import Refusal

UNAVAILABLE: Final = 503
RETRY_AFTER_S: Final = 1
"""SDKs back off by themselves from there; a budget's floor is counted in seconds too."""

SAME_UNIT: Final = 2
"""The same unit in this many generations: no accident."""

Words = tuple[int, Guilty, str, str]
"""A failure in words: status, guilty side, reason (a metric label), message (for the client)."""

UNREADABLE: Final[Words] = (
    502,
    Guilty.ENGINE,
    "unreadable_response",
    "the response cannot be read, so it cannot be judged",
)

TOO_LARGE: Final[Words] = (
    UNAVAILABLE,
    Guilty.OURS,
    "held_bytes",
    "the response is larger than this route may hold",
)


class Recourse:
    """The means of one request."""

    __slots__ = ("_desk", "_dialect", "_record", "_route")

    def __init__(self, record: Record, route: RoutePolicy, dialect: Dialect, desk: Desk) -> None:
        self._record, self._route, self._dialect, self._desk = record, route, dialect, desk

    def __repr__(self) -> str:
        return f"<Recourse after {self._record!r}>"

    def refusal(self, generation: Generation, *, released: bool) -> Refusal | None:
        """Why there can be no further generation, the shared budget left aside."""
        if released:
            return Refusal.RELEASED
        if self._seen_enough(generation):
            return Refusal.SIGNATURE
        if len(self._record.attempts) + 1 >= self._route.max_generations:
            return Refusal.GENERATIONS
        return None

    def again(self, generation: Generation, reason: str, now: float, *, released: bool) -> Restart | None:
        """Order another generation, or None where there is none to be had."""
        refusal = self.refusal(generation, released=released)
        if refusal is None and not self._desk.budget.take(now):
            refusal = Refusal.BUDGET
        self._desk.count("retries", reason, refusal or "restarted")
        if refusal is not None:
            return None
        self._record.again(generation)
        return Restart(reason, self._record.workers, self._drains(generation, now))

    def fail(self, words: Words, generation: Generation, now: float) -> Fail:
        """The loud end, before and after the commit point."""
        status, guilty, reason, message = words
        return Fail(
            status=status,
            body=self._dialect.refusal(status, reason, message),
            # In observe the broken end is the router's own: nothing is added to what it sent.
            in_band=self._dialect.in_band(reason, message) if self._route.holds else b"",
            guilty=guilty,
            reason=reason,
            retry_after_s=RETRY_AFTER_S if status == UNAVAILABLE else UNKNOWN,
            drain=generation.status != 0 and self._drains(generation, now),
        )

    def _seen_enough(self, generation: Generation) -> bool:
        """Whether this finding has come back often enough to be the prompt's or the model's own doing.

        Twice the same unit on two workers is no accident. A finding without a unit (silence) does not say
        what came back: only when every generation ended in it is it believed to be the prompt's.
        """
        judgement = generation.judgement
        if judgement.level is not Level.CORRUPT:
            return False
        seen = 1 + self._record.signatures.get(judgement.signature, 0)
        return seen >= (SAME_UNIT if judgement.unit else max(self._route.max_generations, SAME_UNIT))

    def _drains(self, generation: Generation, now: float) -> bool:
        """Whether the old stream runs out unread; one that has finished needs no word of the governor."""
        seen = generation.events_seen > 0
        return not generation.finish and self._desk.governor.drains(now, first_item_seen=seen)
