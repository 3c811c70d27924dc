"""The probe in the real engine: every verify step, exactly, for every endpoint; and the engine lives on."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from service.config import load_rules
from service.core.events import Kind
from service.core.loglines import LogEvent, LogKind
from service.core.probe_feed import ProbeFeed
from service.core.recorded import Rules, judge_capture
from service.edges.collectors.logtail import LogTail
from service.edges.collectors.scrape import Scraper
from service.edges.router_admin import admin_client
from tests.sglang.conftest import Figures, KeepingFeed
from tests.sglang.engine import Engine, break_next, was_broken
from tests.sglang.talk import PROMPTS, Answer, Talk, ask_alike

pytestmark = pytest.mark.timeout(1800)
DRAFTS = 4  # the root of a verify step is the fifth


def histogram(series: tuple[int, ...] | list[int], like: list[int]) -> list[int]:
    """Steps by what they accepted, at least as long as the engine's own list."""
    counts = Counter(series)
    return [counts[accepted] for accepted in range(max([len(like), *(accepted + 1 for accepted in counts)]))]


def mean_lengths(answer: Answer, series: tuple[int, ...]) -> tuple[float, float]:
    """Accept length as growth tells it, and as it was, over the same tokens: the last event is censored."""
    estimate = [step.accepted + 1 for step in answer.estimate(DRAFTS)]
    first = next(delta.tokens for delta in answer.deltas if delta.tokens > 0)
    last = first + sum(estimate)
    ends = accumulate((accepted + 1 for accepted in series), initial=1)
    steps = sum(first < end <= last for end in ends)
    return ((last - first) / len(estimate), (last - first) / steps) if steps else (1.0, 1.0)


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
    figures.keep("clean-generate", answer, feed.datagrams)
    figures["generate"] = {"steps": len(answer.exact), "histogram": answer.histogram, "exact": True}


async def test_chat_streams_are_told_by_datagram(talk: Talk, feed: KeepingFeed, figures: Figures) -> None:
    feed.datagrams.clear()
    answer = await talk.chat(PROMPTS[1])
    series = feed.take(answer.rid)
    assert is_exact(series, answer)
    figures.keep("clean-chat", answer, feed.datagrams)
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


@pytest.mark.parametrize(
    ("streams", "pause_s", "interval"),
    [(4, 0.0, 1), (4, 0.08, 1), (32, 0.0, 1), (32, 0.05, 1), (32, 0.05, 4)],
)
async def test_many_streams_at_once_are_each_exact(
    talk: Talk, feed: KeepingFeed, figures: Figures, streams: int, pause_s: float, interval: int
) -> None:
    """The probe is exact; the estimate from growth is never below the truth, the censored last step apart."""

    def ask(number: int) -> Coroutine[Any, Any, Answer]:
        prompt = f"{PROMPTS[number % 4]} ({number})"
        if number % 2 and interval == 1:
            return talk.chat(prompt, 24, pause_s=pause_s)
        return talk.generate(prompt, 24, pause_s=pause_s, interval=interval)

    answers = await asyncio.gather(*map(ask, range(streams)))
    errors, merged = [], 0
    for answer in answers:
        series = feed.take(answer.rid)
        assert is_exact(series, answer)
        if answer.accepted is not None:
            assert answer.exact == tuple(answer.accepted) == series
        estimated, true = mean_lengths(answer, series)
        errors.append(estimated - true)
        merged += estimated > true
        assert estimated >= true
    assert merged if interval > 1 else not merged
    figures[f"streams_{streams}_pause_{pause_s}_interval_{interval}"] = {
        "exact_streams": len(answers),
        "merged_streams": merged,
        "estimate_error_mean": round(sum(errors) / len(errors), 4),
        "estimate_error_min": round(min(errors), 4),
        "estimate_error_max": round(max(errors), 4),
    }


@pytest.mark.parametrize("dialect", ["generate", "chat"])
@pytest.mark.parametrize("kind", ["nan", "zero"])
async def test_a_fault_in_the_kv_shows_in_the_stream_itself(
    talk: Talk, feed: KeepingFeed, fault: Path, figures: Figures, kind: str, dialect: str
) -> None:
    """Committed slots of the running request are overwritten, once; the series stays exact all the same."""
    feed.datagrams.clear()
    break_next(fault, kind)
    answer = await ask_alike(talk, dialect, PROMPTS[2], 160)
    assert was_broken(fault)
    await talk.flush()
    assert is_exact(feed.take(answer.rid), answer)
    rules = load_rules()
    verdict = judge_capture(answer.raw, Rules(rules.detectors, rules.fusion), prompt=PROMPTS[2])
    figures.keep(f"{kind}-{dialect}", answer, feed.datagrams)
    figures[f"in_the_stream_{kind}_{dialect}"] = {
        "kind": verdict.kind,
        "level": verdict.level.name,
        "detector": verdict.detector,
        "at_token": verdict.at_token,
        "accept_length": round(answer.spec["spec_accept_length"], 3),
        "histogram": answer.histogram,
    }
    assert verdict.kind is not Kind.NORMAL


async def test_a_client_that_leaves_changes_nothing_for_others(talk: Talk, feed: KeepingFeed) -> None:
    rid = await talk.leave(PROMPTS[2], 3)
    answer = await talk.generate(PROMPTS[0], 20)
    assert is_exact(feed.take(answer.rid), answer)
    assert len(feed.take(rid)) >= 1


async def test_the_probe_says_who_it_is(
    ngram: Engine, talk: Talk, feed: KeepingFeed, figures: Figures
) -> None:
    await talk.generate(PROMPTS[0], 8)
    (sender,) = [sender for sender in feed.senders() if sender.name == ngram.url]
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
    assert ngram.said("specguard probe: watching the scheduler, 3 sidecars")
    assert not ngram.said("standing aside")
