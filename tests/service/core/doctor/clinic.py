"""Workers and routers to examine: sound ones, to be made ill one setting at a time."""

from collections.abc import Iterable
from typing import Any

import msgspec

from service.core.doctor.facts import (
    Engine,
    Facts,
    Listed,
    MetricsSeen,
    RouterFlags,
    RouterKind,
    RouterSeen,
    ServerInfo,
    WorkerSeen,
)
from service.core.doctor.finding import Finding
from service.core.doctor.judge import diagnose
from service.core.doctor.workers import PublicRule

RULE = PublicRule(length_min=1.4, rate_max=0.96)
PROBED = ("0.5.23",)
NOBODY = RouterSeen()

SOUND: dict[str, Any] = {
    "version": "0.5.23",
    "served_model_name": "m",
    "host": "0.0.0.0",  # noqa: S104 - what a worker says of itself
    "weight_version": "1",
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "decode_log_interval": 10,
    "context_length": 100_000,
    "enable_metrics": True,
    "enable_cache_report": True,
    "disaggregation_enable_kv_checksum": True,
    "admin_api_key": "k",
    "internal_states": [{"env_vars": {}}],
}


def info(**ill: object) -> ServerInfo:
    return msgspec.convert(SOUND | ill, ServerInfo)


def worker(url: str = "http://10.0.0.2:1", part: str = "decode", /, **ill: object) -> WorkerSeen:
    """A sound decode worker with this wrong."""
    seen = MetricsSeen(Engine.SGLANG, longest_prefill_s=10.0, prefill_tokens_per_s=10_000.0)
    said = info(disaggregation_mode=part, **ill)
    return WorkerSeen(url, engine=Engine.SGLANG, version=said.version, info=said, metrics=seen)


def pair(**ill: object) -> tuple[WorkerSeen, ...]:
    """A prefill and two decode workers with this wrong on all of them."""
    return (
        worker("http://10.0.0.1:1", "prefill", **ill),
        worker("http://10.0.0.2:1", **ill),
        worker("http://10.0.0.3:1", **ill),
    )


def router(kind: RouterKind = RouterKind.SMG, /, **ill: object) -> RouterSeen:
    listed = tuple(Listed(f"http://10.0.0.{one}:1", "decode" if one > 1 else "prefill") for one in (1, 2, 3))
    flags = RouterFlags(policy="consistent_hashing", retries_max=1, pd=True)
    return msgspec.structs.replace(RouterSeen("http://10.0.0.9:1", kind, workers=listed, flags=flags), **ill)


IN_FRONT = router()


def found(
    workers: Iterable[WorkerSeen] = (), *, router: RouterSeen = IN_FRONT, generations: int = 3
) -> dict[str, Finding]:
    """Findings by code."""
    diagnosis = diagnose(Facts(router, tuple(workers)), RULE, probe_versions=PROBED, generations=generations)
    return {one.code: one for one in diagnosis.findings}
