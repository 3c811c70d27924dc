"""What workers say in `/metrics`, between scrapes, and what follows where they say nothing."""

import json
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from service.core.exposition import MAX_BYTES
from service.core.spec_series import Reading
from service.edges.collectors.scrape import DEFERRED_TIMEOUT, Scrape, Scraper
from service.edges.router_admin import admin_client
from tests.fakes import OK, Script, ScriptedUpstream, Stop, answer

FIXTURES = Path(__file__).parents[3] / "fixtures" / "telemetry"


def told(text: str) -> Script:
    return [answer(text.encode(), kind=b"text/plain; version=0.0.4")]


def vllm(drafts: int, accepted: int) -> Script:
    return told(
        f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts}\n'
        f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}\n'
        'vllm:num_requests_running{engine="0"} 2\n'
    )


def sglang(tokens: int, timeouts: int = 0) -> Script:
    return told(
        'sglang:spec_accept_length{dp_rank="0"} 3.0\n'
        'sglang:spec_accept_length{dp_rank="1"} 2.0\n'
        "sglang:spec_num_draft_tokens 4\n"
        'sglang:num_running_reqs{dp_rank="0"} 3\nsglang:num_running_reqs{dp_rank="1"} 1\n'
        f'sglang:realtime_tokens_total{{mode="decode"}} {tokens}\n'
        f'sglang:decode_deferred_kv_release_total{{outcome="timeout"}} {timeouts}\n'
        'sglang:decode_deferred_kv_release_total{outcome="drained"} 50\n'
    )


@asynccontextmanager
async def scraping(*scripts: Script) -> AsyncIterator[tuple[Scraper, str]]:
    async with ScriptedUpstream(*scripts) as worker, admin_client() as client:
        yield Scraper([worker.url + "/"], client, clock=lambda: 7.0), worker.url


async def scrapes(*scripts: Script) -> list[Scrape | None]:
    """One scrape a script."""
    found = []
    async with scraping(*scripts) as (scraper, url):
        for _ in scripts:
            await scraper.poll()
            found.append(scraper.scrapes.get(url))
    return found


async def test_gauges_of_all_ranks_are_one_sample() -> None:
    (scrape,) = await scrapes(sglang(10))
    assert scrape is not None
    assert (scrape.sample.length, scrape.sample.draft_tokens) == (2.5, 4)
    assert (scrape.reading, scrape.running, scrape.at) == (Reading.HEALTHY, 4, 7.0)
    assert math.isnan(scrape.waiting)


async def test_gauges_are_fresh_only_where_a_counter_moved() -> None:
    found = await scrapes(sglang(10), sglang(10), sglang(11), sglang(11))
    assert [scrape is not None and scrape.fresh for scrape in found] == [False, False, True, False]


async def test_counters_of_trouble_come_as_what_happened_since() -> None:
    found = await scrapes(sglang(10, 5), sglang(10, 5), sglang(10, 7), sglang(10, 1))
    moved = [scrape.moved if scrape else None for scrape in found]
    assert moved == [{}, {}, {DEFERRED_TIMEOUT: 2}, {DEFERRED_TIMEOUT: 1}]  # at last: restarted


async def test_vllm_tells_counters_and_gets_a_sample_between_two_scrapes() -> None:
    first, second, third = await scrapes(vllm(100, 10), vllm(110, 25), vllm(110, 25))
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.reading is Reading.NO_DATA
    assert second.sample.length == 2.5
    assert second.fresh
    assert third.reading is Reading.NO_DATA
    assert second.running == 2


async def test_vllm_tells_acceptance_by_position_and_the_width_of_its_drafts() -> None:
    """A real vLLM's counters, from nothing to where they stood after a few requests."""
    now = (FIXTURES / "vllm-ngram-metrics.txt").read_text()
    nothing = re.sub(r"(?m)^(vllm:spec_decode_\w+_total\{.*\}) .*$", r"\1 0.0", now)
    _, scrape = await scrapes(told(nothing), told(now))
    assert scrape is not None
    sample = scrape.sample
    assert (sample.verify_steps, sample.correct_drafts, sample.mean_width) == (32, 19, 5.0)
    assert sample.length == pytest.approx(1 + 19 / 32)
    assert sample.rate == pytest.approx(19 / 128)
    assert sample.per_position == pytest.approx((14 / 32, 3 / 32, 2 / 32, 0.0))
    assert scrape.model == "smollm2"
    assert scrape.fresh


async def test_a_real_worker_is_scraped() -> None:
    (scrape,) = await scrapes(told((FIXTURES / "sgl-ngram-metrics.txt").read_text()))
    assert scrape is not None
    assert (scrape.sample.length, scrape.sample.draft_tokens, scrape.waiting) == (1.2, 5, 0)


@pytest.mark.parametrize(
    "script",
    [
        [answer(b"no", b"HTTP/1.1 404 Not Found\r\n")],
        [OK, Stop.CLOSE],
        [Stop.RESET],
    ],
)
async def test_a_worker_that_does_not_answer_is_counted_and_forgotten(script: Script) -> None:
    async with scraping(sglang(1), script) as (scraper, url):
        await scraper.poll()
        assert url in scraper.scrapes
        await scraper.poll()
        assert scraper.scrapes == {}
        assert scraper.counts["unanswered"] == 1


REFUSED: Script = [answer(b"no", b"HTTP/1.1 404 Not Found\r\n")]


def loads(steps: int, **other: object) -> Script:
    rank = {"num_running_reqs": 2, "num_waiting_reqs": 1, "decode_moments": [steps], **other}
    return [answer(json.dumps({"loads": [rank]}).encode(), kind=b"application/json")]


async def test_a_worker_whose_metrics_are_off_tells_its_load() -> None:
    speculative = {"accept_rate": 0.5, "accept_length": 3.0}
    scripts = [
        script for steps in (10, 10, 30) for script in (REFUSED, loads(steps, speculative=speculative))
    ]
    async with scraping(*scripts) as (scraper, url):
        found = []
        for _ in range(3):
            await scraper.poll()
            found.append(scraper.scrapes[url])
    assert [scrape.fresh for scrape in found] == [False, False, True]
    assert (found[0].running, found[0].waiting, found[0].sample.rate) == (2, 1, 0.5)
    assert math.isnan(found[0].sample.length)
    assert not found[0].counted
    assert scraper.counts == {"loads": 3}


async def test_a_load_without_a_counter_of_progress_does_not_say_that_anything_runs() -> None:
    async with scraping(REFUSED, loads(0, decode_moments=None)) as (scraper, url):
        await scraper.poll()
        assert math.isnan(scraper.scrapes[url].running)


def relayed(*workers: tuple[str, float]) -> Script:
    lines = [
        f'sglang:spec_accept_length{{tp_rank="0",worker_addr="{url}"}} {length}' for url, length in workers
    ]
    return told("\n".join(["# HELP x y", *lines, "smg_up 1", ""]))


async def test_workers_that_only_the_router_reaches_are_read_through_it() -> None:
    """First hand where that can be; a router without the path leaves the others unknown."""
    far, gone = "http://127.0.0.1:1", "http://127.0.0.1:2"
    refused: Script = [answer(b"no", b"HTTP/1.1 404 Not Found\r\n")]
    async with (
        ScriptedUpstream(sglang(10)) as worker,
        ScriptedUpstream(relayed((worker.url, 9.0), (far + "/", 1.5)), refused) as router,
        admin_client() as client,
    ):
        near = worker.url
        scraper = Scraper([near, far, gone], client, router=router.url + "/")
        await scraper.poll()
        assert {url: scrape.sample.length for url, scrape in scraper.scrapes.items()} == {near: 2.5, far: 1.5}
        await scraper.poll()
        assert list(scraper.scrapes) == [near]
    assert router.requests[0].startswith(b"GET /engine_metrics ")
    assert (scraper.counts["relayed"], scraper.counts["unanswered"]) == (1, 3)


async def test_half_of_what_a_router_relays_is_nothing() -> None:
    far = "http://127.0.0.1:1"
    endless = relayed(*[(far, 3.0)] * (MAX_BYTES // 60))
    async with ScriptedUpstream(endless) as router, admin_client() as client:
        scraper = Scraper([far], client, router=router.url)
        await scraper.poll()
        assert scraper.scrapes == {}


async def test_half_an_answer_is_read_as_far_as_it_goes() -> None:
    (scrape,) = await scrapes(told("sglang:spec_accept_length 3.0\nsglang:spec_num_draft_tokens 1"))
    assert scrape is not None
    assert (scrape.sample.length, scrape.sample.draft_tokens) == (3.0, 0)


async def test_an_endless_answer_is_read_to_the_bound() -> None:
    line = b'sglang:gen_throughput{r="xxxxxxxxxxxxxxxxxxxxxxxx"} 1\n'
    endless = line * (2 * MAX_BYTES // len(line))
    async with scraping([answer(b"sglang:spec_accept_length 3.0\n" + endless)]) as (scraper, url):
        await scraper.poll()
        assert scraper.scrapes[url].sample.length == 3.0
        assert scraper.counts["over_the_limit"] > 0


async def test_workers_come_and_go() -> None:
    async with scraping(sglang(1)) as (scraper, url):
        await scraper.poll()
        scraper.retarget([url, "http://127.0.0.1:1"])
        assert url in scraper.scrapes
        scraper.retarget([])
        assert scraper.scrapes == {}
        await scraper.poll()
        assert repr(scraper) == "<Scraper 0 targets, 0 answered>"


async def test_each_scrape_is_handed_on() -> None:
    heard: list[Scrape] = []
    async with ScriptedUpstream(sglang(10)) as worker, admin_client() as client:
        scraper = Scraper([worker.url], client, sink=heard.append)
        await scraper.poll()
    assert heard == list(scraper.scrapes.values())
