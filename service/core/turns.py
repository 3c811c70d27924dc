"""Requests that are over, on their way to the cache watch: a bounded queue between two threads.

The data loop puts a reference in and takes 5 us for it; the hashing is done elsewhere. Where turns come
faster than they are read, whole sessions are left out, the same ones each time, so that of the others every
turn is seen: half of them, then three quarters, and back once there is room.

Bounds: `TURNS_MAX` turns and `CHARS_MAX` characters of prompts wait.
"""

from collections import deque
from typing import Final

from service.core.cache_watch import MIN_CHARS, SessionTurn, key_of

TURNS_MAX: Final = 64
"""A second's worth; reading them takes some 30 ms."""
CHARS_MAX: Final = 1 << 24
SHARE_MIN: Final = 1 / 1024


class Turns:
    """`offer` on one thread, `take` on another."""

    __slots__ = ("_chars", "_turns", "share", "skipped")

    def __init__(self) -> None:
        self._turns: deque[SessionTurn] = deque()
        self._chars = 0
        self.share = 1.0  # of all sessions
        self.skipped = 0  # turns of sessions that are left out

    def __repr__(self) -> str:
        return f"<Turns {len(self._turns)} waiting, {self.share:.0%} of sessions>"

    def offer(self, turn: SessionTurn) -> None:
        if len(turn.prompt) < MIN_CHARS:  # nobody would miss it in a cache
            return
        chosen = key_of(turn) % 1024 < self.share * 1024
        full = len(self._turns) >= TURNS_MAX or self._chars >= CHARS_MAX
        if chosen and full:
            self.share = max(self.share / 2, SHARE_MIN)
        if not chosen or full:
            self.skipped += 1
            return
        self._chars += len(turn.prompt)
        self._turns.append(turn)

    def take(self) -> list[SessionTurn]:
        """All that wait; call it each second."""
        taken = [self._turns.popleft() for _ in range(len(self._turns))]
        self._chars = 0
        if len(taken) < TURNS_MAX / 4:
            self.share = min(self.share * 2, 1.0)
        return taken
