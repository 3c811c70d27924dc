"""The probe in the real engine: every verify step, exactly, for every endpoint; and the engine lives on."""

import asyncio
from collections import Counter

import pytest

from service.core.loglines import LogEvent, LogKind
from service.core.probe_feed import ProbeFeed
from service.edges.collectors.logtail import LogTail
from service.edges.collectors.scrape import Scraper
from service.edges.router_admin import admin_client
from tests.sglang.conftest import Figures, KeepingFeed
from tests.sglang.engine import Engine
from tests.sglang.talk import PROMPTS, Answer, Talk

pytestmark = pytest.mark.timeout(1800)
DRAFTS = 4  # the root of a verify step is the fifth


def histogram(series: tuple[int, ...] | list[int], like: list[int]) -> list[int]:
    """Steps by what they accepted, at least as long as the engine's own list."""
    counts = Counter(series)
    return [counts[accepted] for accepted in range(max([len(like), *(accepted + 1 for accepted in counts)]))]


def is_exact(series: tuple[int, ...] | list[int], answer: Answer) -> bool:
    """Against the engine's own last word on the request."""
    return (
        histogram(series, answer.histogram) == answer.histogram
        and len(series) == answer.spec["spec_verify_ct"]
    )


async def test_generate_streams_carry_their_own_series(
    talk: Talk, feed: KeepingFeed, figures: Figures
) -> None:
    feed.datagrams.clear()
    answer = await talk.generate(PROMPTS[0])
    assert answer.accepted is not None
    assert is_exact(answer.accepted, answer)
    assert answer.exact == tuple(answer.accepted)
    assert feed.take(answer.rid) == answer.exact
    assert feed.whole(answer.rid)
    figures.keep("sgl-probe-generate-stream.sse", answer.raw.decode())
    figures.keep("sgl-probe-generate-datagrams.hex", "".join(f"{one.hex()}\n" for one in feed.datagrams))
    figures["generate"] = {"steps": len(answer.exact), "histogram": answer.histogram, "exact": True}


async def test_chat_streams_are_told_by_datagram(talk: Talk, feed: KeepingFeed, figures: Figures) -> None:
    feed.datagrams.clear()
    answer = await talk.chat(PROMPTS[1])
    series = feed.take(answer.rid)
    assert is_exact(series, answer)
    figures.keep("sgl-probe-chat-stream.sse", answer.raw.decode())
    figures.keep("sgl-probe-chat-datagrams.hex", "".join(f"{one.hex()}\n" for one in feed.datagrams))
    figures["chat"] = {"steps": len(series), "histogram": answer.histogram, "exact": True}


async def test_answers_in_one_piece_are_told_as_well(talk: Talk, feed: KeepingFeed) -> None:
    whole = await talk.generate_whole(PROMPTS[2])
    assert whole.accepted is not None
    assert is_exact(whole.accepted, whole)
    assert feed.take(whole.rid) == tuple(whole.accepted)
    chat = await talk.chat_whole(PROMPTS[3])
    assert is_exact(feed.take(chat.rid), chat)


async def test_a_second_sidecar_hears_the_same(
    talk: Talk, feed: KeepingFeed, remote: tuple[ProbeFeed, int]
) -> None:
    answer = await talk.generate(PROMPTS[1], 20)
    assert remote[0].take(answer.rid) == feed.take(answer.rid) != ()
    assert remote[0].counts["bad_mac"] == 0


@pytest.mark.parametrize(("streams", "pause_s"), [(4, 0.0), (4, 0.08), (32, 0.0), (32, 0.05)])
async def test_many_streams_at_once_are_each_exact(
    talk: Talk, feed: KeepingFeed, figures: Figures, streams: int, pause_s: float
) -> None:
    """The probe is exact; the estimate from growth is never below the truth, the censored last step apart."""
    kinds = (talk.generate, talk.chat)
    answers = await asyncio.gather(
        *(kinds[n % 2](f"{PROMPTS[n % 4]} ({n})", 24, pause_s=pause_s) for n in range(streams))
    )
    errors, merged = [], 0
    for answer in answers:
        series = feed.take(answer.rid)
        assert is_exact(series, answer)
        if answer.accepted is not None:
            assert answer.exact == tuple(answer.accepted) == series
        estimate = answer.estimate(DRAFTS)
        if len(series) < 3 or not estimate:
            continue
        merged += len(estimate) < len(series) - 1
        truth = series[: len(series) - 1]  # without the step that a stop may have trimmed
        told = [step.accepted for step in estimate]
        errors.append(sum(told) / len(told) - sum(truth) / len(truth))
    figures[f"streams_{streams}_pause_{pause_s}"] = {
        "exact_streams": len(answers),
        "merged_streams": merged,
        "estimate_error_mean": round(sum(errors) / len(errors), 4),
        "estimate_error_min": round(min(errors), 4),
        "estimate_error_max": round(max(errors), 4),
    }


async def test_a_client_that_leaves_changes_nothing_for_others(talk: Talk, feed: KeepingFeed) -> None:
    rid = await talk.leave(PROMPTS[2], 3)
    answer = await talk.generate(PROMPTS[0], 20)
    assert is_exact(feed.take(answer.rid), answer)
    assert len(feed.take(rid)) >= 1


async def test_the_probe_says_who_it_is(
    ngram: Engine, talk: Talk, feed: KeepingFeed, figures: Figures
) -> None:
    await talk.generate(PROMPTS[0], 8)
    (sender,) = feed.senders()
    assert sender.name == ngram.url
    assert (sender.depth, sender.aside, sender.missed) == (DRAFTS, False, 0)
    assert sender.text == "0.5.23"
    assert feed.counts["gaps"] == 0
    figures["feed"] = {name: feed.counts[name] for name in ("datagrams", "rows", "streams", "gaps", "missed")}


async def test_the_engines_metrics_and_log_are_read(ngram: Engine, talk: Talk, figures: Figures) -> None:
    seen: list[LogEvent] = []
    tail = LogTail([ngram.log], lambda _, event: seen.append(event))
    await tail.poll()
    async with admin_client() as client:
        scraper = Scraper([ngram.url], client)
        await scraper.poll()
        await talk.generate(PROMPTS[0], 60)
        await scraper.poll()
        await tail.poll()
    tail.close()
    scrape = scraper.scrapes[ngram.url]
    assert scrape.fresh
    assert scrape.sample.draft_tokens == DRAFTS + 1
    assert 1.0 <= scrape.sample.length <= DRAFTS + 1
    lines = [event for event in seen if event.kind is LogKind.DECODE_BATCH]
    assert lines
    assert all(1.0 <= event.numbers["accept_len"] <= DRAFTS + 1 for event in lines)
    figures["collectors"] = {"decode_lines": len(lines), "scraped_accept_length": scrape.sample.length}


async def test_the_engine_said_one_thing_about_the_probe(ngram: Engine) -> None:
    assert ngram.said("specguard probe: watching the scheduler, 2 sidecars")
    assert not ngram.said("standing aside")
