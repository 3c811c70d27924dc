"""No worker hangs: a loop that stands still for a minute ends its process, and says on stderr where it stood.

The standard library's faulthandler waits in a thread of its own that needs no interpreter lock, so it fires
even while a computation holds the lock for ever. The loop puts the deadline off as long as it turns; a worker
that has been asked to end gets one last deadline that nothing puts off.
"""

import asyncio
import faulthandler

WATCHDOG_S = 60.0
"""An iteration takes some milliseconds and a busy machine makes seconds of them."""

LAST_S = 20.0
"""For a worker that was asked to end; a supervisor that is alive kills it before that."""

BEATS = 10
"""How often in its time the deadline is put off."""


async def watch(limit_s: float = WATCHDOG_S) -> None:
    """Put the deadline off for ever."""
    while True:
        arm(limit_s)
        await asyncio.sleep(limit_s / BEATS)


def arm(limit_s: float) -> None:
    """End this process after so long, unless somebody puts the deadline off."""
    faulthandler.dump_traceback_later(limit_s, exit=True)


def disarm() -> None:
    """Let this process live."""
    faulthandler.cancel_dump_traceback_later()
