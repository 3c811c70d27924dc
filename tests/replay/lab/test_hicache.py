"""The host tier: hits cost no computing, a missing sync point shows in answers, the ledger knows whose."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from replay.lab.admission import SlotQueue
from replay.lab.hicache import Mode, NoCache, PrefixCache
from replay.lab.kvpool import PageTable
from replay.lab.loadback import Gate, LoadBack
from replay.lab.scheduler import Cached
from replay.lab.speculation import reference_answer
from replay.lab.tasks import flatten, prompt_ids, session
from replay.lab.workloads import Plan, sessions
from tests.replay.lab.labkit import Pair, finished, make_pool, prompt, running_pair

PAGES = 40


@asynccontextmanager
async def cached_pair(
    mode: Mode = Mode.FIXED, host_pages: int = 64
) -> AsyncIterator[tuple[Pair, PrefixCache]]:
    """A pair whose prefill worker has a small pool with a prefix cache and a host tier."""
    async with running_pair(pages=PAGES) as pair:
        cache = PrefixCache(pair.prefill.slots, pair.prefill._pool, host_pages, mode)
        pair.prefill.cache = cache
        yield pair, cache
        cache.close()


async def ledger(pair: Pair) -> list[dict[str, Any]]:
    while pair.decode.auditor.pending or len(pair.decode.live):  # noqa: ASYNC110 (the engine has no such event)
        await asyncio.sleep(0)
    return [json.loads(line) for line in pair.decode.ledger.since(0).splitlines()]


async def push_out(pair: Pair, cache: PrefixCache) -> None:
    """Let other prompts use every page of the pool, until the first one lies on the host only."""
    for seed in range(12, 19):
        await pair.answer(pair.asked(prompt(seed)))
    cache.tree.reclaim(PAGES)


def hold(load_model: str, layers: set[int]) -> Gate:
    """Hold the write of chosen layers until somebody waits for the layer (or, unfixed, for good measure)."""

    def gate(load: LoadBack, model: str, layer: int) -> None:
        if model == load_model and layer in layers:
            assert load.wanted[model, layer].wait(10)

    return gate


async def test_a_repeated_prompt_is_computed_from_its_last_page_on_and_answers_the_same() -> None:
    async with cached_pair(Mode.OFF, host_pages=0) as (pair, cache):
        first = await pair.answer(pair.asked(prompt(1)))
        again = await pair.answer(pair.asked(prompt(1)))
    pages = (len(prompt(1)) - 1) // 16
    assert (first.cached, again.cached) == (Cached(), Cached(device=pages * 16))
    assert first.output == again.output == reference_answer(prompt(1), 120)
    assert cache.counts.device_hit == pages * 16
    assert 0 < cache.counts.hit_rate < 1


async def test_the_turns_of_a_session_hit_what_came_before() -> None:
    turns = session(np.random.default_rng(4), 5)
    async with cached_pair(Mode.OFF, host_pages=0) as (pair, _):
        hits = []
        for turn in turns:
            tokens = tuple(prompt_ids(flatten(turn.messages)))
            generation = await pair.answer(pair.asked(tokens))
            assert generation.output == list(turn.task.answer_ids)
            hits.append(generation.cached.total)
    assert hits[0] == 0
    assert hits == sorted(hits)
    assert hits[-1] >= 48


async def test_requests_at_once_share_pages_and_all_are_given_back() -> None:
    async with cached_pair(Mode.OFF, host_pages=0) as (pair, cache):
        sent = [pair.send(pair.asked(prompt(seed % 3)))[1] for seed in range(9)]
        for seed, generation in enumerate(sent):
            assert (await finished(generation)).output == reference_answer(prompt(seed % 3), 120)
        assert cache.is_idle
        cache.flush()
        assert pair.prefill.slots.table.usage == 0


async def test_what_lies_on_the_host_comes_back_and_the_answer_is_right() -> None:
    async with cached_pair(Mode.FIXED) as (pair, cache):
        await pair.answer(pair.asked(prompt(1)))
        await push_out(pair, cache)
        again = await pair.answer(pair.asked(prompt(1)))
        lines = await ledger(pair)
    assert again.cached.device == 0
    assert again.cached.host == cache.counts.loaded > 0
    assert again.output == reference_answer(prompt(1), 120)
    assert {line["kind"] for line in lines} == {"none"}


async def test_with_the_sync_point_a_load_back_held_until_it_is_wanted_does_no_harm() -> None:
    async with cached_pair(Mode.FIXED) as (pair, cache):
        await pair.answer(pair.asked(prompt(1)))
        await push_out(pair, cache)
        assert cache.loader is not None
        cache.loader.gate = hold("target", {0, 1, 2, 3})
        again = await pair.answer(pair.asked(prompt(1)))
    assert again.cached.host > 0
    assert again.output == reference_answer(prompt(1), 120)
    assert cache.counts.tainted_requests == 0


def held(late: threading.Event, models: set[str]) -> Gate:
    """Hold every write of these models until `late`."""

    def gate(_load: LoadBack, model: str, _layer: int) -> None:
        if model in models:
            late.wait(10)

    return gate


async def test_without_the_sync_point_the_answer_is_wrong_and_the_cache_tainted_until_a_flush() -> None:
    first, second = (step.task.prompt_ids for step in next(sessions(3, 0, Plan(steps=6)))[::5])
    async with cached_pair(Mode.UNFIXED) as (pair, cache):
        await pair.answer(pair.asked(first))
        await push_out(pair, cache)
        assert cache.loader is not None
        late = threading.Event()
        cache.loader.gate = held(late, {"target", "draft"})
        struck = await pair.answer(pair.asked(second))
        late.set()
        while not cache.is_idle:  # noqa: ASYNC110 (a thread ends)
            await asyncio.sleep(0.001)
        after = await pair.answer(pair.asked(second))
        cache.flush()
        clean = await pair.answer(pair.asked(second))
        lines = {line["rid"]: line for line in await ledger(pair)}
    right = reference_answer(second, 120)
    assert struck.cached.host > 0
    assert after.cached.device > struck.cached.total
    assert clean.output == right
    for generation in (struck, after):
        line = lines[generation.asked.rid]
        assert (line["kind"], line["applied"], line["at_token"]) == ("hicache", True, 0)
        assert line["answer_changed"] is (generation.output != right)
    assert struck.output != right
    assert lines[clean.asked.rid]["kind"] == "none"
    assert cache.counts.tainted_requests == 2


async def test_an_index_that_is_not_ready_costs_acceptance_and_not_one_token() -> None:
    async with cached_pair(Mode.INDEX_UNFIXED) as (pair, cache):
        before = await pair.answer(pair.asked(prompt(1)))
        await push_out(pair, cache)
        assert cache.loader is not None
        late = threading.Event()
        cache.loader.gate = held(late, {"draft"})
        struck = await pair.answer(pair.asked(prompt(1)))
        late.set()
        line = next(line for line in await ledger(pair) if line["rid"] == struck.asked.rid)
    assert struck.output == before.output == reference_answer(prompt(1), 120)
    assert struck.spec.accepted < before.spec.accepted
    assert struck.spec.verify_steps > before.spec.verify_steps
    assert (line["kind"], line["answer_changed"]) == ("hicache_index", False)


async def test_a_lost_index_costs_acceptance_until_a_flush() -> None:
    async with cached_pair(Mode.INDEX_LOST) as (pair, cache):
        before = await pair.answer(pair.asked(prompt(1)))
        await push_out(pair, cache)
        struck = await pair.answer(pair.asked(prompt(1)))
        after = await pair.answer(pair.asked(prompt(1)))
        cache.flush()
        cured = await pair.answer(pair.asked(prompt(1)))
        lines = {line["rid"]: line["kind"] for line in await ledger(pair)}
    assert struck.output == after.output == cured.output == before.output
    assert max(struck.spec.accepted, after.spec.accepted) < before.spec.accepted == cured.spec.accepted
    assert (struck.cached.host, after.cached.host) == (struck.cached.total, 0)
    kinds = [lines[one.asked.rid] for one in (before, struck, after, cured)]
    assert kinds == ["none", "hicache_index", "hicache_index", "none"]


async def test_a_layer_that_never_comes_fails_the_request_by_name() -> None:
    async with cached_pair(Mode.FIXED) as (pair, cache):
        await pair.answer(pair.asked(prompt(1)))
        await push_out(pair, cache)
        assert cache.loader is not None
        release = threading.Event()
        cache.loader.gate = held(release, {"target"})
        cache.loader.wait_s = 0.01
        generation = await pair.answer(pair.asked(prompt(1)))
        release.set()
    assert "load-back of target layer 0 did not finish" in getattr(generation.finish, "message", "")


async def test_waiting_prompts_never_hold_pages_that_the_first_of_them_needs() -> None:
    async with cached_pair(Mode.OFF, host_pages=0) as (pair, _):
        for seed in range(4):
            await pair.answer(pair.asked(prompt(seed)))
        sent = [pair.send(pair.asked(prompt(seed % 8)))[1] for seed in range(10)]
        async with asyncio.timeout(50):
            for seed, generation in enumerate(sent):
                assert (await finished(generation)).output == reference_answer(prompt(seed % 8), 120)


async def test_a_full_host_gives_up_its_coldest_page() -> None:
    async with cached_pair(Mode.FIXED, host_pages=6) as (pair, cache):
        for seed in range(4):
            await pair.answer(pair.asked(prompt(seed)))
        assert len([node for node in cache.tree.nodes() if node.host is not None]) == 6
        assert cache.host.free == []


def test_a_host_tier_cannot_be_switched_on_where_there_is_none() -> None:
    slots = SlotQueue(PageTable(PAGES))
    cache = PrefixCache(slots, make_pool("test", PAGES))
    with pytest.raises(ValueError, match="host pages"):
        cache.mode = Mode.FIXED


async def test_without_a_cache_every_prompt_has_pages_of_its_own() -> None:
    slots = SlotQueue(PageTable(PAGES))
    cache = NoCache(slots)
    lease = await cache.take(prompt(1))
    cache.keep(lease, prompt(1))
    assert (lease.cached_tokens, lease.before("target")) == (0, None)
    cache.give(lease)
    assert slots.table.usage == 0
