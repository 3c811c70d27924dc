"""Metrics are there before they are needed, keep the conventions, and never break the ticker."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.edges.catalogue import GROWTH_MAX
from service.edges.metrics import Metrics

ROOT = Path(__file__).parents[3]
ALERTS = yaml.safe_load((ROOT / "alerts.yaml").read_text())
EXPRESSIONS = [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]
NAMED = sorted({name for expr in EXPRESSIONS for name in re.findall(r"(?<![:\w])specguard_\w+", str(expr))})


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(routes=("agents", "default"), detectors=("loop", "garble"))


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.mark.parametrize("name", NAMED)
def test_a_metric_that_an_alert_names_exists(metrics: Metrics, name: str) -> None:
    assert name in metrics.names


@pytest.mark.parametrize(
    "name",
    [
        "specguard_streams_total",
        "specguard_verdicts_total",
        "specguard_escaped_total",
        "specguard_failopen_active",
        "specguard_retries_total",
        "specguard_delivered_bad_tokens_total",
        "specguard_cases_dropped_total",
    ],
)
def test_a_series_is_zero_before_anything_happened(metrics: Metrics, name: str) -> None:
    samples = [s for family in metrics.registry.collect() for s in family.samples if s.name == name]
    assert samples
    assert {s.value for s in samples} == {0.0}


def test_names_and_labels_keep_the_conventions(metrics: Metrics) -> None:
    for family in metrics.registry.collect():
        assert ":" not in family.name
        assert family.documentation.endswith(".") or family.name.startswith("process_")
        for sample in family.samples:
            assert not set(sample.labels) & {"rid", "prompt", "user", "url"}
            if family.type == "counter":
                assert sample.name.endswith("_total")


def test_every_counter_the_core_uses_is_in_the_catalogue(metrics: Metrics) -> None:
    used = {name for path in (ROOT / "service").rglob("*.py") for name in _counted(path)}
    assert {"streams", "verdicts", "retries"} <= used
    assert used <= metrics._counters.keys


def _counted(path: Path) -> set[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return {
        str(call.args[0].value)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "count"
        and _is_counting(call.func.value)
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }


def _is_counting(owner: Any) -> bool:  # noqa: ANN401 - any expression
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.strip("_") in {"desk", "metrics"}


def test_a_flush_adds_what_was_counted_since_the_last(metrics: Metrics) -> None:
    counts = {("streams", "agents", "strict", "clean"): 3, ("delivered_bad_tokens",): 40}
    metrics.flush(counts, {"stream_duration_seconds": [1.0, 2.7]})
    metrics.flush(counts, {})
    assert value(metrics, "specguard_streams_total", route="agents", policy="strict", outcome="clean") == 6
    assert value(metrics, "specguard_delivered_bad_tokens_total") == 80
    assert value(metrics, "specguard_stream_duration_seconds_count") == 2


def test_a_count_nobody_foresaw_is_counted_as_our_defect(metrics: Metrics) -> None:
    metrics.count("no_such_family", "x")
    metrics.count("streams", "one label only")
    metrics.sample("no_such_histogram", 1.0)
    assert value(metrics, "specguard_unknown_counts_total") == 3


def test_label_values_cannot_grow_without_bound(metrics: Metrics) -> None:
    for number in range(GROWTH_MAX + 50):
        metrics.count("suspects", f"detector{number}")
    series = [key for key in metrics._counters.children if key[0] == "suspects"]
    assert len(series) == GROWTH_MAX + 2 + 1
    assert value(metrics, "specguard_suspects_total", detector="other") == 50


def test_a_sample_that_is_no_number_is_no_observation(metrics: Metrics) -> None:
    metrics.sample("stream_duration_seconds", float("nan"))
    assert value(metrics, "specguard_stream_duration_seconds_count") == 0


def test_a_histogram_key_may_name_its_label(metrics: Metrics) -> None:
    metrics.sample("added_latency_seconds:hold", 0.2)
    assert value(metrics, "specguard_added_latency_seconds_count", phase="hold") == 1


def test_a_histogram_key_may_name_a_worker_by_its_url(metrics: Metrics) -> None:
    assert "specguard_spec_accept_length_bucket" in metrics.names
    metrics.sample("spec_accept_length:http://w:1", 3.5)
    assert value(metrics, "specguard_spec_accept_length_sum", worker="http://w:1") == 3.5


def test_the_build_and_the_configuration_are_in_labels(metrics: Metrics) -> None:
    metrics.describe(
        version="1.2.3", settings="abc", rules="def", ruleset="default", policies={"agents": "strict"}
    )
    text = metrics.exposition().decode()
    assert 'specguard_build_info{python="3.' in text
    assert 'specguard_config_hash_info{rules="def",settings="abc"} 1.0' in text
    assert value(metrics, "specguard_ruleset_info", ruleset="default", digest="def") == 1
    assert value(metrics, "specguard_policy_info", route="agents", policy="strict") == 1


def test_the_object_shows_its_state(metrics: Metrics) -> None:
    assert re.fullmatch(r"<Metrics \d+ series>", repr(metrics))
