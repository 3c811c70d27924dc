"""The scene of a bad generation, as a case keeps it: which engine, beside whom, how long it took.

What an engine says of itself (`GET WORKER/server_info`, some 500 fields, keys and passwords among them) is
kept by an allow-list: what a replay must set alike, and what corruption has been seen to hang on. What nobody
told us is the word "unknown", and never left out.
"""

from collections.abc import Iterable, Mapping
from math import nan
from typing import Any, Final

import msgspec

from service.core.events import UNKNOWN

UNSAID: Final = "unknown"
BESIDE_MAX: Final = 64
"""Requests named as running beside a bad one; a decode batch is seldom larger."""
VALUE_CHARS: Final = 200
WEIGHTS: Final = (
    "model_path", "served_model_name", "revision", "weight_version", "dtype", "quantization", "load_format",
    "speculative_draft_model_path", "speculative_draft_model_revision",
)  # fmt: skip
ARGUMENTS: Final = (
    "tp_size", "dp_size", "pp_size", "ep_size", "enable_dp_attention", "attention_backend",
    "decode_attention_backend", "prefill_attention_backend", "kv_cache_dtype", "page_size",
    "context_length", "mem_fraction_static", "max_running_requests", "max_total_tokens",
    "chunked_prefill_size", "schedule_policy", "disable_radix_cache", "radix_eviction_policy",
    "disable_overlap_schedule", "disable_cuda_graph", "enable_mixed_chunk", "random_seed",
    "enable_deterministic_inference", "speculative_algorithm", "speculative_num_steps",
    "speculative_eagle_topk", "speculative_num_draft_tokens", "speculative_adaptive",
    "disaggregation_mode", "disaggregation_transfer_backend", "disaggregation_decode_enable_radix_cache",
    "disaggregation_decode_enable_offload_kvcache", "enable_hierarchical_cache", "hicache_ratio",
    "hicache_size", "hicache_write_policy", "hicache_io_backend", "hicache_mem_layout",
    "hicache_storage_backend", "enable_lmcache", "stream_interval", "kv_canary",
    "disaggregation_enable_kv_checksum",
)  # fmt: skip


class Engine(msgspec.Struct, frozen=True):
    """One worker, by its own account."""

    name: str = UNSAID
    version: str = UNSAID
    weights: dict[str, Any] = {}
    arguments: dict[str, Any] = {}


class Scene(msgspec.Struct, frozen=True):
    """Where and when it happened."""

    engine: Engine = Engine()
    beside: tuple[str, ...] | None = None  # rids open on the same worker when the verdict fell; None: unknown
    head_s: float = nan  # from the request to the first response head
    first_byte_s: float = nan  # and to the first bytes of an answer
    policy: str = UNSAID  # by which the router chooses workers


def engine_of(info: Mapping[str, Any]) -> Engine:
    """What to keep of `server_info`, whose speculative fields only SGLang has."""
    name = "sglang" if "speculative_algorithm" in info else UNSAID
    return Engine(name, _word(info.get("version")), _kept(info, WEIGHTS), _kept(info, ARGUMENTS))


def described(scene: Scene, dp_rank: int = UNKNOWN) -> dict[str, Any]:
    """The engine's part of a bundle; which of its ranks it was, only a probe can tell."""
    engine = scene.engine
    return {
        "name": engine.name,
        "version": engine.version,
        "weights": engine.weights or UNSAID,
        "arguments": engine.arguments or UNSAID,
        "dp_rank": UNSAID if dp_rank == UNKNOWN else dp_rank,
    }


def _kept(info: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """The plain values under these keys; what the engine leaves at null is its default."""
    found = {key: info[key] for key in keys if isinstance(info.get(key), bool | int | float | str)}
    return {key: value[:VALUE_CHARS] if isinstance(value, str) else value for key, value in found.items()}


def _word(value: object) -> str:
    return value[:VALUE_CHARS] if isinstance(value, str) and value else UNSAID
