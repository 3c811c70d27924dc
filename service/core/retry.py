"""When a bad generation may be generated again.

Two bounds. A request gets at most `max_generations`, and the same signature twice ends it: what two workers
do alike is the prompt's or the model's doing. All requests together get a budget: retries of the last minute
may be 10 % of the streams completed in it, with a floor of 3 a second so that a quiet fleet can recover at
all. Retries are the known way to turn a small fault into an outage (abort storms: 12 prefill/decode groups
at a fifteenth of their throughput for an hour), so an empty budget is final.
"""

from enum import StrEnum
from typing import Final

RATIO: Final = 0.10
"""Share of completed streams that may be retried: half of Envoy's default, since each costs a prefill."""
FLOOR_PER_S: Final = 3
SPAN_S: Final = 60


class Refusal(StrEnum):
    """Why there is no further generation."""

    RELEASED = "released"  # bytes are with the client
    GENERATIONS = "generations"  # this request has had its share
    SIGNATURE = "signature"  # the same finding a second time: not the worker's doing
    BUDGET = "budget"  # all requests together have had theirs


class PerSecond:
    """Counts of the last minute, a bucket a second; O(1) a count."""

    __slots__ = ("_buckets", "_second", "total")

    def __init__(self) -> None:
        self._buckets = [0] * SPAN_S
        self._second = -1
        self.total = 0

    def add(self, now: float) -> None:
        self._turn(int(now))
        self._buckets[self._second % SPAN_S] += 1
        self.total += 1

    def last_minute(self, now: float) -> int:
        self._turn(int(now))
        return self.total

    def this_second(self, now: float) -> int:
        self._turn(int(now))
        return self._buckets[self._second % SPAN_S]

    def _turn(self, second: int) -> None:
        """Empty the buckets of the seconds that have passed since the last call."""
        for passed in range(max(self._second + 1, second - SPAN_S + 1), second + 1):
            self.total -= self._buckets[passed % SPAN_S]
            self._buckets[passed % SPAN_S] = 0
        self._second = max(self._second, second)


class RetryBudget:
    """The retries that all requests of this process may spend together."""

    __slots__ = ("_completed", "_retried")

    def __init__(self) -> None:
        self._completed = PerSecond()
        self._retried = PerSecond()

    def __repr__(self) -> str:
        return f"<RetryBudget {self._retried.total} retried of {self._completed.total} completed>"

    def completed(self, now: float) -> None:
        """A client's request has ended, however it ended."""
        self._completed.add(now)

    def left(self, now: float) -> float:
        """Share of the minute's ratio still unspent, 0..1; the floor is not in it."""
        allowed = RATIO * self._completed.last_minute(now)
        return max(0.0, 1.0 - self._retried.last_minute(now) / allowed) if allowed else 1.0

    def take(self, now: float) -> bool:
        """Spend one retry if there is one."""
        within_ratio = self._retried.last_minute(now) < RATIO * self._completed.last_minute(now)
        if not within_ratio and self._retried.this_second(now) >= FLOOR_PER_S:
            return False
        self._retried.add(now)
        return True
