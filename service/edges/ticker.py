"""One timer for the whole data loop: heartbeats, silence, hold-back deadlines, pools, counters.

A timer a stream would cost a heap operation a chunk; 250 ms is fine enough for everything that waits here.
Ticks keep to the absolute schedule, and how late one came is the loop's lag. A call that raises is logged and
called again at the next tick: the ticker outlives what it drives.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final

import structlog

EVERY_S: Final = 0.25

_log = structlog.get_logger(__name__)


class Ticker:
    """Calls everything given, with the time, each 250 ms."""

    def __init__(self, *calls: Callable[[float], None], every_s: float = EVERY_S) -> None:
        self._calls = calls
        self._every_s = every_s
        self.lag_s = 0.0  # how late the last tick came

    def __repr__(self) -> str:
        return f"<Ticker {len(self._calls)} calls, {self.lag_s * 1e3:.1f} ms late>"

    async def run(self) -> None:
        """Until cancelled."""
        due = monotonic() + self._every_s
        while True:
            await asyncio.sleep(max(0.0, due - monotonic()))
            now = monotonic()
            self.lag_s = max(0.0, now - due)
            for call in self._calls:
                try:
                    call(now)
                except Exception as error:  # noqa: BLE001 - see above
                    _log.error("tick_failed", error=type(error).__name__, exc_info=error)
            due += self._every_s
            if due < now:  # after a stall go on from here, do not catch up
                due = now + self._every_s
