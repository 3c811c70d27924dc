"""Who is due: an open loop on absolute times, and how late what was due really went out.

A send's time is the plan's, counted from the start of the run, whatever became of the sends before it: a slow
server meets the load that was planned and not one that waits for it. The one exception is a send `after`
another, as an agent's next turn: it is due `gap_s` after the other has ended, and not before its own time.

Lateness is what the client adds by itself. A run kept its schedule if, in each arm, 99 % of the sends went
out within `kept_limit_s`: 5 ms, or half the arm's mean gap where that is more, since a send that is late by
less than its distance to the next hardly changes the load. Results keep the scheduled time beside the real
one, so that lateness cannot hide in a latency. No clock here: time is a parameter.
"""

from array import array
from collections import deque
from collections.abc import Collection, Iterator
from heapq import heappop, heappush
from math import inf
from typing import Final, NamedTuple

import numpy as np

from replay.plan import Send

EARLY_S: Final = 0.0005
"""The loop's timers count whole milliseconds: what is due within half of one goes now."""
LATE_S: Final = 0.005
"""The least that counts as late."""
GAP_SHARE: Final = 0.5
QUANTILE: Final = 99
CAP_WINDOW_S: Final = 1.0


class Due(NamedTuple):
    """A send and when it was due."""

    at_s: float
    send: Send


class Pacer:
    """All sends of a run, in order; what is due is taken out once."""

    def __init__(
        self,
        sends: Iterator[Send],
        awaited: Collection[str] = frozenset(),
        *,
        done: Collection[str] = frozenset(),
        cap_per_s: float = inf,
    ) -> None:
        """Sends in order of time; `awaited`: ids that others come after; `done`: sent before a kill."""
        self._sends = (send for send in sends if send.id not in done)
        self._next = next(self._sends, None)
        self._awaited = awaited
        self._ended: dict[str, float] = {one: 0.0 for one in awaited if one in done}
        self._waiting: dict[str, list[Send]] = {}
        self._ready: list[tuple[float, int, Send]] = []
        self._taken = 0
        self._cap_per_s = cap_per_s
        self._recent: deque[float] = deque()  # when the last went out, as far back as the cap looks

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting.values()))
        return f"<Pacer {self._taken} out, {len(self._ready)} ready, {waiting} waiting>"

    @property
    def exhausted(self) -> bool:
        """Whether nothing will ever be due again."""
        return self._next is None and not self._ready and not self._waiting

    def restart(self) -> float:
        """Go on at the first send that is left: its time, at which all that was done before has ended."""
        at_s = self._next.at_s if self._next is not None else 0.0
        self._ended = dict.fromkeys(self._ended, at_s)
        return at_s

    def due(self, now_s: float) -> list[Due]:
        """What must go out now."""
        found: list[Due] = []
        self._take_up(now_s + EARLY_S)
        while self._ready and self._ready[0][0] <= now_s + EARLY_S and self._within_cap(now_s):
            at_s, _, send = heappop(self._ready)
            found.append(Due(at_s, send))
        return found

    def next_s(self) -> float | None:
        """When to ask again; None while that depends on what ends."""
        times = [self._ready[0][0]] if self._ready else []
        if self._next is not None:
            times.append(self._next.at_s)
        soonest = min(times, default=None)
        if soonest is not None and len(self._recent) >= self._cap_per_s:
            return max(soonest, self._recent[0] + CAP_WINDOW_S)
        return soonest

    def ended(self, name: str, now_s: float) -> bool:
        """A send is over, however; whether that makes others ready."""
        if name not in self._awaited:
            return False
        self._ended[name] = now_s
        waiting = self._waiting.pop(name, ())
        for send in waiting:
            self._get_ready(send)
        return bool(waiting)

    def _take_up(self, until_s: float) -> None:
        while self._next is not None and self._next.at_s <= until_s:
            send, self._next = self._next, next(self._sends, None)
            if send.after is not None and send.after not in self._ended:
                self._waiting.setdefault(send.after, []).append(send)
            else:
                self._get_ready(send)

    def _get_ready(self, send: Send) -> None:
        at_s = send.at_s
        if send.after is not None:
            at_s = max(at_s, self._ended[send.after] + send.gap_s)
        self._taken += 1
        heappush(self._ready, (at_s, self._taken, send))

    def _within_cap(self, now_s: float) -> bool:
        if self._cap_per_s == inf:
            return True
        recent = self._recent
        while recent and recent[0] <= now_s - CAP_WINDOW_S:
            recent.popleft()
        if len(recent) >= self._cap_per_s:
            return False
        recent.append(now_s)
        return True


def kept_limit_s(mean_gap_s: float) -> float:
    """How late 99 % of the sends of an arm may be at most."""
    return max(LATE_S, GAP_SHARE * mean_gap_s)


class Kept(NamedTuple):
    """Of the arm that kept its schedule worst, by share of what it was allowed."""

    arm: str
    p99_s: float
    limit_s: float

    @property
    def kept(self) -> bool:
        return self.p99_s <= self.limit_s


class Lateness:
    """How late sends went out, by arm; 8 bytes a send."""

    def __init__(self) -> None:
        self._late: dict[str, array[float]] = {}
        self._spans: dict[tuple[str, int], tuple[float, float]] = {}

    def __repr__(self) -> str:
        return f"<Lateness of {sum(map(len, self._late.values()))} sends>"

    def add(self, arm: str, block: int, scheduled_s: float, sent_s: float) -> None:
        late = self._late.get(arm)
        if late is None:
            late = self._late[arm] = array("d")
        late.append(sent_s - scheduled_s)
        first, last = self._spans.get((arm, block), (scheduled_s, scheduled_s))
        self._spans[arm, block] = min(first, scheduled_s), max(last, scheduled_s)

    def worst(self) -> Kept:
        """The arm that says whether the schedule was kept."""
        found = [self._kept(arm) for arm in self._late]
        return max(found, key=lambda one: one.p99_s / one.limit_s, default=Kept("", 0.0, LATE_S))

    def _kept(self, arm: str) -> Kept:
        late = self._late[arm]
        spans = [span for (name, _), span in self._spans.items() if name == arm]
        gaps = len(late) - len(spans)
        mean_gap_s = sum(last - first for first, last in spans) / gaps if gaps > 0 else 0.0
        return Kept(arm, float(np.percentile(late, QUANTILE)), kept_limit_s(mean_gap_s))
