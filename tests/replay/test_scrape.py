"""Metrics beside the load, and what they said when a request went out."""

import asyncio

from replay.pages import Site
from replay.results import Metric
from replay.scrape import Latest, Scraper, values_of
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


def test_who_went_out_keeps_what_was_last_said_then() -> None:
    latest = Latest()
    latest.note(Metric(at_s=1.0, url="p", values={"num_queue_reqs": 1.0, "generation_tokens_total": 7.0}))
    before = latest.met
    latest.note(Metric(at_s=2.0, url="d", values={"token_usage": 0.5}))
    latest.note(Metric(at_s=2.0, url="p", values={"num_queue_reqs": 2.0}))
    assert before == {"p": {"num_queue_reqs": 1.0}}
    assert latest.met == {"p": {"num_queue_reqs": 2.0}, "d": {"token_usage": 0.5}}
