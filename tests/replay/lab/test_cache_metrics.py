"""The cache's metrics add up to what the cache did, under the engine's names."""

import re

from prometheus_client import CollectorRegistry, generate_latest

from replay.lab.cache_metrics import CacheMetrics
from replay.lab.hicache import Mode
from tests.replay.lab.labkit import prompt, running_pair


def value(text: str, name: str, label: str = "") -> float:
    found = re.search(rf"^sglang:{name}\{{[^}}]*{label}[^}}]*\}} (\S+)$", text, re.MULTILINE)
    assert found, name
    return float(found[1])


async def test_hits_loads_and_evictions_are_counted_once() -> None:
    async with running_pair(pages=40) as pair:
        cache = pair.prefill.use_cache(host_pages=64, mode=Mode.FIXED)
        for seed in (1, 1, 2):
            await pair.answer(pair.asked(prompt(seed)))
        cache.tree.reclaim(40)
        await pair.answer(pair.asked(prompt(1)))
        for _ in range(2):
            pair.prefill.count_cache()
        text = pair.prefill.metrics.render({}, pair.prefill.slots.available_pages).decode()
        cache.close()
    counts = cache.counts
    assert counts.device_hit == counts.host_hit > 0
    assert value(text, "cached_tokens_total", 'cache_source="device"') == counts.device_hit
    assert value(text, "cached_tokens_total", 'cache_source="total"') == 2 * counts.device_hit
    assert value(text, "prefill_effective_tokens_total", 'mode="host_hit"') == counts.host_hit
    assert value(text, "load_back_tokens_total") == counts.loaded
    assert value(text, "load_back_bytes_total") == counts.loaded * 4.5 * 1024
    assert value(text, "load_back_duration_seconds_count") == 1
    assert value(text, "evicted_tokens_total") == cache.tree.evicted_tokens > 0
    assert value(text, "hicache_host_used_tokens") > 0
    assert value(text, "hicache_host_total_tokens") == 64 * 16
    assert value(text, "realtime_tokens_total", 'mode="prefill_cache"') == 2 * counts.device_hit
    assert 0 < value(text, "cache_hit_rate") < 1
    assert value(text, "kv_available_tokens") == 40 * 16


async def test_without_a_host_tier_there_are_no_series_of_one() -> None:
    async with running_pair(pages=40) as pair:
        cache = pair.prefill.use_cache()
        registry = CollectorRegistry()
        metrics = CacheMetrics(registry, cache)
        metrics.update()
        text = generate_latest(registry).decode()
    assert "hicache_host_total_tokens" not in text
    assert "load_back" not in text
    assert value(text, "cache_hit_rate") == 0
