"""When to stop: a backend that fails is told from one that fails now and then, within seconds.

Looked at are the requests that ended in the last `WINDOW_S`, and the last `FAILURES_MIN` however long ago. At
least so many must have failed, so that two bad answers of a slow run do not end it, and their share must pass
the limit.
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
        self.failures = 0
        self.ended = 0

    def __repr__(self) -> str:
        return f"<ErrorLimit {self._failed} of {len(self._recent)} failed lately>"

    def add(self, ending: Ending, at_s: float) -> None:
        """One request has ended."""
        failed = ending in FAILURES
        self.ended += 1
        self.failures += failed
        self._failed += failed
        self._recent.append((at_s, failed))
        self._forget(at_s)

    @property
    def passed(self) -> bool:
        """Whether the backend fails more than it may, now."""
        return self._failed >= FAILURES_MIN and self._failed > self._share * len(self._recent)

    @property
    def passed_in_all(self) -> bool:
        """The same over the whole run."""
        return self.failures >= FAILURES_MIN and self.failures > self._share * self.ended

    def _forget(self, now_s: float) -> None:
        while len(self._recent) > FAILURES_MIN and self._recent[0][0] < now_s - WINDOW_S:
            self._failed -= self._recent.popleft()[1]
