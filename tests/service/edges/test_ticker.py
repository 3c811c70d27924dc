"""One timer: to the schedule, and outliving what it drives."""

import asyncio
import contextlib
from itertools import pairwise
from time import monotonic, sleep

from structlog.testing import capture_logs

from service.edges.ticker import Ticker


async def ticked(ticker: Ticker, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(ticker.run(), seconds)


async def test_everything_is_called_with_the_time() -> None:
    times: list[float] = []
    others: list[float] = []
    started = monotonic()
    await ticked(Ticker(times.append, others.append, every_s=0.01), 0.2)
    assert times == others
    assert 5 <= len(times) <= 20
    assert all(started < time < monotonic() for time in times)


async def test_a_call_that_raises_is_told_and_stops_nobody() -> None:
    times: list[float] = []

    def broken(_: float) -> None:
        raise ValueError("a prompt might stand here")

    with capture_logs() as logs:
        await ticked(Ticker(broken, times.append, every_s=0.01), 0.1)
    assert len(times) >= 3
    assert {entry["error"] for entry in logs} == {"ValueError"}


async def test_lateness_is_measured_and_not_caught_up() -> None:
    times: list[float] = []

    def stall(now: float) -> None:
        times.append(now)
        if len(times) == 1:
            sleep(0.1)

    ticker = Ticker(stall, every_s=0.02)
    await ticked(ticker, 0.25)
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) > 0.01


async def test_the_lag_shows_in_its_repr() -> None:
    ticker = Ticker()
    ticker.lag_s = 0.0042
    assert repr(ticker) == "<Ticker 0 calls, 4.2 ms late>"
