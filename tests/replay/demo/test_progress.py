"""The live line: what the clients have seen, in plain words, on a terminal and off it."""

import asyncio
import io

from rich.console import Console

from replay.demo import progress
from replay.demo.traffic import Limits, Tally
from tests.waiting import until

TALLY = Tally(started=12, done=10, right=7, wrong=1, loud=2, again=3)


def test_the_line_counts_what_was_seen() -> None:
    text = progress.line(TALLY, Limits(seconds=60), 12.4)
    assert text == "  12 s  10 answered: 7 right, 1 wrong, 2 failed loudly; 3 generated again unseen"


def test_a_wanted_number_of_requests_is_told() -> None:
    assert "10 of 40 answered" in progress.line(TALLY, Limits(requests=40), 1.0)


async def test_a_terminal_sees_the_line_until_it_is_over() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    async with asyncio.TaskGroup() as tasks:
        showing = tasks.create_task(progress.show(console, TALLY, Limits()), name="progress")
        await until(lambda: "10 answered" in out.getvalue())
        showing.cancel()
    assert "10 answered" in out.getvalue()


async def test_elsewhere_nothing_is_rewritten() -> None:
    out = io.StringIO()
    async with asyncio.TaskGroup() as tasks:
        plain = progress.show(Console(file=out, width=120), TALLY, Limits(), every_s=0.01)
        showing = tasks.create_task(plain, name="progress")
        await until(lambda: out.getvalue().count("10 answered") > 1)
        showing.cancel()
    assert "\x1b" not in out.getvalue()
