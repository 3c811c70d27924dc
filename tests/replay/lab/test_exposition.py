"""Metrics carry SGLang's names, help texts, labels and buckets, and say what happened."""

import json
import re
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from replay.lab.exposition import DECODE_LOG_INTERVAL, Metrics, Transfer
from replay.lab.intake import Submission
from replay.lab.scheduler import RUNNING_ABORT, Generation, Phase
from replay.lab.speculation import StepResult

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # (as a worker process does)

FAMILIES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "lab" / "sgl-metric-families.json").read_text()
)
UNSEEN = {
    "sglang:num_bootstrap_failed_reqs_total",
    "sglang:num_aborted_requests_total",
    "sglang:num_decode_deferred_kv_release_reqs",
    "sglang:decode_deferred_kv_release_seconds",
}
"""In the engine's source and in no capture: nothing had failed or been aborted there."""


def exercised(engine_type: str = "decode") -> Metrics:
    """A worker that has done a little of everything."""
    metrics = Metrics(engine_type, 64)
    metrics.received(100, streaming=True)
    metrics.transferred(Transfer(0.01, 0.001, 0.002, 500_000))
    metrics.first_token(0.05, streaming=True)
    metrics.tokens(4, 0.02)
    metrics.deferred_release("drained", 0.02)
    metrics.draining(1)
    metrics.prefilled(100)
    metrics.aborted()
    metrics.transfer_failed(before_write=True)
    metrics.transfer_failed(before_write=False)
    asked = Submission("r", (1, 2), 9, False, True, "lab", None)  # noqa: FBT003 (field order)
    generation = Generation(asked, Phase.RUNNING)
    generation.say((5, 6, 7))
    generation.spec.add(StepResult(4, 1, (6, 7)))
    generation.end(RUNNING_ABORT)
    metrics.finished(generation)
    return metrics


def text(metrics: Metrics, phases: dict[Phase, int] | None = None, free_pages: int = 64) -> str:
    return metrics.render(phases or {}, free_pages).decode()


def value(shown: str, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(shown):
        for sample in family.samples:
            if sample.name == f"sglang:{name}" and labels.items() <= sample.labels.items():
                return float(sample.value)
    raise LookupError(name)


def test_the_catalogue_is_a_part_of_the_engines() -> None:
    shown = text(exercised())
    ours = set(re.findall(r"^# TYPE (\S+)", shown, re.MULTILINE))
    assert ours - UNSEEN == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_described_and_labelled_as_captured(name: str) -> None:
    shown, captured = text(exercised()), FAMILIES[name]
    assert f"# HELP {name} {captured['help']}\n" in shown
    assert f"# TYPE {name} {captured['type']}\n" in shown
    plain = name.removesuffix("_total")
    samples = re.findall(rf"^{plain}(?:_total|_bucket|_sum|_count)?{{.*", shown, re.MULTILINE)
    labels = {frozenset(re.findall(r'(\w+)="', line)) - {"le"} for line in samples}
    assert labels == {frozenset(captured["labels"])}
    edges = re.findall(rf'^{name}_bucket.*le="([^"]+)"', shown, re.MULTILINE)
    buckets = [float(le) for le in dict.fromkeys(edges)]
    assert buckets == [float(le) for le in captured.get("buckets", [])]


def test_queues_are_those_of_the_moment_and_of_the_workers_kind() -> None:
    phases = {Phase.RUNNING: 3, Phase.WAITING: 2, Phase.TRANSFER: 4, Phase.PREALLOC: 1, Phase.BOOTSTRAP: 5}
    decode, prefill = text(Metrics("decode", 64), phases, 16), text(Metrics("prefill", 64), phases)
    assert value(decode, "num_running_reqs", engine_type="decode") == 3
    assert value(decode, "num_queue_reqs") == 2
    assert value(decode, "num_decode_transfer_queue_reqs") == 4
    assert value(decode, "num_prefill_inflight_queue_reqs") == 0
    assert value(decode, "num_decode_prealloc_queue_reqs") == 1
    assert value(decode, "token_usage") == 0.75
    assert value(decode, "kv_available_tokens") == 256
    assert value(prefill, "num_prefill_inflight_queue_reqs") == 4
    assert value(prefill, "num_prefill_bootstrap_queue_reqs") == 5


def test_batch_gauges_move_at_the_end_of_an_interval_and_count_the_bonus_token() -> None:
    metrics = Metrics("decode", 64)
    for at in range(DECODE_LOG_INTERVAL):
        assert value(text(metrics, {Phase.RUNNING: 1}), "spec_accept_length") == 0
        metrics.iteration([StepResult(4, 2, (1, 2, 3)), StepResult(4, 0, (1,))], now=1e9 + at)
    shown = text(metrics, {Phase.RUNNING: 1})
    assert value(shown, "spec_accept_length") == 2.0
    assert value(shown, "spec_accept_rate") == 0.25
    assert value(shown, "gen_throughput") > 0
    assert value(shown, "realtime_tokens_total", mode="decode") == 4 * DECODE_LOG_INTERVAL


def test_the_stations_of_a_hand_over_are_told_one_by_one() -> None:
    metrics = Metrics("prefill", 64)
    metrics.stage("prefill_forward", 0.25)
    metrics.transferred(Transfer(0.01, 0.001, 0.002, 500_000))
    shown, seconds = text(metrics), "per_stage_req_latency_seconds_sum"
    told = [
        value(shown, seconds, stage=f"prefill_{one}") for one in ("bootstrap", "forward", "transfer_kv_cache")
    ]
    assert told == [0.01, 0.25, 0.002]


def test_fleet_accept_length_follows_from_two_counters() -> None:
    shown = text(exercised())
    assert value(shown, "generation_tokens_total", is_streaming="true") == 3
    assert value(shown, "spec_verify_calls_total") == 1
    assert value(shown, "spec_num_draft_tokens") == value(shown, "spec_num_steps") + 1


def test_a_worker_that_does_nothing_generates_nothing() -> None:
    metrics = Metrics("decode", 64)
    for at in range(DECODE_LOG_INTERVAL):
        metrics.iteration([StepResult(4, 2, (1, 2, 3))], now=1e9 + at)
    assert value(text(metrics, {}), "gen_throughput") == 0
    assert value(text(metrics, {}), "spec_accept_length") == 3.0
