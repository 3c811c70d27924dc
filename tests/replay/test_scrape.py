"""Metrics beside the load, and what they said when a request went out."""

import asyncio

from replay.pages import Site
from replay.results import Metric, Result
from replay.scrape import Dose, Scraper, values_of
from tests.fakes import ScriptedUpstream, Stop, answer
from tests.replay.runkit import LOCAL

PAGE = b"""# HELP sglang:num_queue_reqs waiting
sglang:num_queue_reqs{tp_rank="0"} 4
sglang:num_queue_reqs{tp_rank="1"} 6
sglang:cached_tokens_total{tp_rank="0"} 10
sglang:cached_tokens_total{tp_rank="1"} 20
sglang:unwanted 7
sglang:token_usage NaN
"""


def test_gauges_are_averaged_and_counters_summed() -> None:
    assert values_of(PAGE) == {"num_queue_reqs": 5.0, "cached_tokens_total": 30.0}
    assert values_of(b"\xff\xfe") == {}


async def test_pages_are_read_until_told_and_a_missing_one_is_counted() -> None:
    kept: list[Metric] = []
    async with (
        ScriptedUpstream([answer(PAGE, kind=b"text/plain")]) as good,
        ScriptedUpstream([Stop.CLOSE]) as bad,
    ):
        sites = [Site(good.url + "/metrics", LOCAL), Site(bad.url, LOCAL)]
        scraper = Scraper(sites, lambda: 7.0, kept.append)
        task = asyncio.get_running_loop().create_task(scraper.run(0.01), name="scraper")
        while len(kept) < 3:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
    assert {one.url for one in kept} == {good.url + "/metrics"}
    assert kept[0].at_s == 7.0
    assert scraper.missed >= 1


def test_a_request_met_what_was_last_said_before_it() -> None:
    dose = Dose(
        [
            Metric(at_s=2.0, url="p", values={"x": 2.0}),
            Metric(at_s=1.0, url="p", values={"x": 1.0}),
            Metric(at_s=1.5, url="d", values={"x": 9.0}),
        ]
    )
    result = Result(id="a", scheduled_s=1.0, sent_s=1.2, ended_s=2.0, ending="complete")
    assert dose.of(result) == {"p": {"x": 1.0}}
    assert dose.at(5.0) == {"p": {"x": 2.0}, "d": {"x": 9.0}}
    assert dose.at(0.5) == {}
