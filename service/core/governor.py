"""When an upstream stream may be closed early, which is an abort of its generation.

Aborting is itself the trigger of the transfer race that we exist for, and of abort storms: closing towards
the router aborts prefill and decode within 26 ms. So on a prefill/decode-disaggregated backend the default
is to withhold: the bad stream runs out unread (`drain`), and before decode's first item nothing is ever
closed at once. Where the operator allows closing, it is spent from a small budget and stops when aborts are
more than 5 % of the streams of the last minute: an SRE should be paged then, not helped along.
"""

from enum import StrEnum
from typing import Final

from service.core.retry import PerSecond

BRAKE_RATIO: Final = 0.05
BRAKE_FLOOR: Final = 5
"""Aborts a minute let through before the ratio counts: one abort in ten streams is no storm."""
DRAIN_S: Final = 30.0
"""How long an unread stream may run out before it is closed all the same."""


class AbortMode(StrEnum):
    DRAIN = "drain"  # withhold and let the stream run out
    CLOSE = "close"  # close at once, within the budget


class Governor:
    """Every early close of an upstream asks here first."""

    __slots__ = ("_closed", "_streams", "mode")

    def __init__(self, mode: AbortMode = AbortMode.DRAIN) -> None:
        self.mode = mode
        self._closed = PerSecond()
        self._streams = PerSecond()

    def __repr__(self) -> str:
        return f"<Governor {self.mode} closed={self._closed.total} of {self._streams.total} streams>"

    def opened(self, now: float) -> None:
        """An upstream stream was opened."""
        self._streams.add(now)

    def drains(self, now: float, *, first_item_seen: bool, client_gone: bool = False) -> bool:
        """Whether to let the stream run out instead of closing it.

        A client that went away has no use for the rest and the engine should stop, so there the mode does not
        matter; decode's first item and the brake do.
        """
        if not first_item_seen or self._braked(now):
            return True
        if self.mode is AbortMode.DRAIN and not client_gone:
            return True
        self._closed.add(now)
        return False

    def _braked(self, now: float) -> bool:
        limit = max(BRAKE_FLOOR, BRAKE_RATIO * self._streams.last_minute(now))
        return self._closed.last_minute(now) >= limit
