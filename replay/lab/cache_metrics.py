"""The prefix cache's part of `/metrics`, under SGLang's names; some series only with a host tier.

Counters are brought up to the cache's own counts when somebody reads. `cache_hit_rate` is that of the last
prefill, as in the engine: the rate over all time is `cached_tokens_total` over `prompt_tokens_total`.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from replay.lab.hicache import PrefixCache
from replay.lab.intake import MODEL_NAME
from replay.lab.kvpool import FLOAT_BYTES
from replay.lab.model import PAGE_TOKENS

_SCHEDULER = ("engine_type", "model_name", "moe_ep_rank", "pp_rank", "tp_rank")
_RANKS = ("prefill", MODEL_NAME, "0", "0", "0")
_WORKER = ("prefill", MODEL_NAME)
_LOAD_BACK_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

_TIER_COUNTERS = {
    "load_back_tokens_total": (
        "The number of tokens loaded back from local host DRAM (L2) to GPU.",
        ("pool",),
    ),
    "load_back_bytes_total": ("Bytes loaded back from local host DRAM (L2) to GPU, all pools combined.", ()),
    "hicache_backup_tokens_total": (
        "The number of tokens backed up from GPU to local host DRAM (L2).",
        ("pool",),
    ),
    "hicache_backup_bytes_total": (
        "Bytes backed up from GPU to local host DRAM (L2), all pools combined.",
        (),
    ),
}
_COUNTERS = {
    "prefill_effective_tokens_total": (
        "Effective prefill tokens. mode: device_hit, host_hit, storage_hit, input.",
        ("mode",),
    ),
    "evicted_tokens_total": ("The number of device KV token slots freed by eviction.", ()),
}


class CacheMetrics:
    """One prefill worker's cache series."""

    def __init__(self, registry: CollectorRegistry, cache: PrefixCache) -> None:
        """Register the series that this cache can fill."""
        self._cache = cache
        tier = cache.loader is not None
        gauges = {
            "cache_hit_rate": "The prefix cache hit rate.",
            "kv_evictable_tokens": "Number of evictable (radix-cached) token slots in the KV cache pool.",
        }
        if tier:
            gauges |= {
                "hicache_host_used_tokens": "Number of tokens currently used in the host KV cache.",
                "hicache_host_total_tokens": "Total capacity of the host KV cache in tokens.",
            }
        self._gauges = {name: _gauge(registry, name, text) for name, text in gauges.items()}
        counters = _COUNTERS | (_TIER_COUNTERS if tier else {})
        self._counters = {
            name: Counter(f"sglang:{name}", text, (*_SCHEDULER, *more), registry=registry)
            for name, (text, more) in counters.items()
        }
        self._cached = Counter(
            "sglang:cached_tokens_total",
            "Number of cached prompt tokens by source (device/host/storage).",
            ("engine_type", "model_name", "cache_source"),
            registry=registry,
        )
        self._told: dict[tuple[str, ...], int] = {}
        self._loads = _histogram(registry) if tier else None
        target, draft = cache.host.target, cache.host.draft
        rows = target[:, :, 0].size + draft[:, :, 0].size if cache.host.pages else 0
        self._page_bytes = FLOAT_BYTES * rows

    def __repr__(self) -> str:
        """Count the series."""
        return f"<CacheMetrics {len(self._gauges) + len(self._counters)} series>"

    def update(self) -> None:
        """Bring every series up to now."""
        cache, counts = self._cache, self._cache.counts
        self._set("cache_hit_rate", counts.last_hit_rate)
        self._set("kv_evictable_tokens", cache.tree.evictable_pages * PAGE_TOKENS)
        for mode in ("input", "device_hit", "host_hit"):
            self._grow("prefill_effective_tokens_total", getattr(counts, mode), mode)
        self._grow("evicted_tokens_total", cache.tree.evicted_tokens)
        by_source = {"device": counts.device_hit, "host": counts.host_hit}
        for source, tokens in {**by_source, "total": sum(by_source.values())}.items():
            self._cached.labels(*_WORKER, source).inc(self._new(("cached", source), tokens))
        if self._loads is not None:
            self._update_tier(self._loads)

    def _update_tier(self, loads: Histogram) -> None:
        cache, counts = self._cache, self._cache.counts
        used = cache.host.pages - len(cache.host.free)
        self._set("hicache_host_used_tokens", used * PAGE_TOKENS)
        self._set("hicache_host_total_tokens", cache.host.pages * PAGE_TOKENS)
        for name, tokens in (("load_back", counts.loaded), ("hicache_backup", counts.backed_up)):
            self._grow(f"{name}_tokens_total", tokens, "kv")
            self._grow(f"{name}_bytes_total", tokens // PAGE_TOKENS * self._page_bytes)
        while cache.loader is not None and cache.loader.durations_s:
            loads.labels(*_RANKS).observe(cache.loader.durations_s.popleft())

    def _set(self, name: str, value: float) -> None:
        self._gauges[name].labels(*_RANKS).set(value)

    def _grow(self, name: str, total: int, *more: str) -> None:
        self._counters[name].labels(*_RANKS, *more).inc(self._new((name, *more), total))

    def _new(self, key: tuple[str, ...], total: int) -> int:
        grown = total - self._told.get(key, 0)
        self._told[key] = total
        return grown


def _gauge(registry: CollectorRegistry, name: str, text: str) -> Gauge:
    return Gauge(f"sglang:{name}", text, _SCHEDULER, registry=registry)


def _histogram(registry: CollectorRegistry) -> Histogram:
    text = "GPU-stream span of a merged host-to-device load-back copy loop."
    return Histogram(
        "sglang:load_back_duration_seconds", text, _SCHEDULER, buckets=_LOAD_BACK_S, registry=registry
    )
