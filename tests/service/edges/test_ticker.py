"""One timer: to the schedule, and outliving what it drives."""

import asyncio
from collections.abc import Callable
from time import monotonic, sleep

from structlog.testing import capture_logs

from service.edges.ticker import Ticker
from tests.waiting import until


async def ticked(ticker: Ticker, enough: Callable[[], bool]) -> None:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(ticker.run())
        await until(enough)
        running.cancel()


async def test_everything_is_called_with_the_time() -> None:
    times: list[float] = []
    others: list[float] = []
    started = monotonic()
    await ticked(Ticker(times.append, others.append, every_s=0.01), lambda: len(others) >= 5)
    assert times == others == sorted(times)
    assert all(time - started >= 0.009 * place for place, time in enumerate(times, 1))
    assert times[-1] < monotonic()


async def test_a_call_that_raises_is_told_and_stops_nobody() -> None:
    times: list[float] = []

    def broken(_: float) -> None:
        raise ValueError("a prompt might stand here")

    with capture_logs() as logs:
        await ticked(Ticker(broken, times.append, every_s=0.01), lambda: len(times) >= 3)
    assert {entry["error"] for entry in logs} == {"ValueError"}


async def test_lateness_is_measured_and_not_caught_up() -> None:
    times: list[float] = []

    def stall(now: float) -> None:
        times.append(now)
        if len(times) == 1:
            sleep(0.1)

    await ticked(Ticker(stall, every_s=0.02), lambda: len(times) >= 4)
    assert times[2] - times[1] > 0.018


async def test_the_lag_shows_in_its_repr() -> None:
    ticker = Ticker()
    ticker.lag_s = 0.0042
    assert repr(ticker) == "<Ticker 0 calls, 4.2 ms late>"
