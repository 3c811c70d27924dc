"""When to stop: a backend that fails is told from one that fails now and then, within seconds.

Looked at are the requests that ended in the last `WINDOW_S`, and the last `FAILURES_MIN` however long ago. At
least so many must have failed, so that two bad answers of a slow run do not end it, and their share must pass
the limit.

What fails fast is over before what was sent with it and is answered well: an error in fifty, in milliseconds,
where answers take a minute, would look like nothing but errors. So requests that went out within `WINDOW_S`
before the last failure did, and are still under way, count as not failed.
"""

from collections import deque
from typing import Final

from replay.results import Ending

WINDOW_S: Final = 10.0
FAILURES_MIN: Final = 5
FAILURES: Final[frozenset[Ending]] = frozenset({"error", "reset", "timeout", "refused"})
"""The backend's. `aborted` is the client's own doing."""


class ErrorLimit:
    """Counts what ends; without a clock."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._recent: deque[tuple[float, bool]] = deque()
        self._failed = 0  # of the recent
        self._going_on = 0  # sent with the last one that failed, and still under way
        self.failures = 0
        self.ended = 0

    def __repr__(self) -> str:
        return f"<ErrorLimit {self._failed} of {len(self._recent)} failed lately>"

    def add(self, ending: Ending, at_s: float, going_on: int = 0) -> None:
        """One request has ended; so many that went out with it are still under way."""
        failed = ending in FAILURES
        if failed:
            self._going_on = going_on
        self.ended += 1
        self.failures += failed
        self._failed += failed
        self._recent.append((at_s, failed))
        self._forget(at_s)

    @property
    def passed(self) -> bool:
        """Whether the backend fails more than it may, now."""
        looked_at = len(self._recent) + self._going_on
        return self._failed >= FAILURES_MIN and self._failed > self._share * looked_at

    @property
    def passed_in_all(self) -> bool:
        """The same over the whole run."""
        return self.failures >= FAILURES_MIN and self.failures > self._share * self.ended

    def _forget(self, now_s: float) -> None:
        while len(self._recent) > FAILURES_MIN and self._recent[0][0] < now_s - WINDOW_S:
            self._failed -= self._recent.popleft()[1]
