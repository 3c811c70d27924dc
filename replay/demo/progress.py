"""One live line on standard error: rewritten on a terminal, elsewhere a new one every five seconds."""

import asyncio
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.text import Text

from replay.demo.traffic import Limits, Tally

TERMINAL_EVERY_S = 0.25
PLAIN_EVERY_S = 5.0


def line(tally: Tally, limits: Limits, elapsed_s: float) -> str:
    """What the clients have seen so far; the truth comes at the end."""
    wanted = "" if limits.requests is None else f" of {limits.requests}"
    return (
        f"{elapsed_s:4.0f} s  {tally.done}{wanted} answered: {tally.right} right, "
        f"{tally.wrong} wrong, {tally.loud} failed loudly; {tally.again} generated again unseen"
    )


async def show(console: Console, tally: Tally, limits: Limits, *, every_s: float = PLAIN_EVERY_S) -> None:
    """Keep the line up to date until cancelled."""
    began = monotonic()
    if not console.is_terminal:
        while True:
            await asyncio.sleep(every_s)
            console.print(line(tally, limits, monotonic() - began), soft_wrap=True, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(Text(line(tally, limits, monotonic() - began)), refresh=True)
            await asyncio.sleep(TERMINAL_EVERY_S)
