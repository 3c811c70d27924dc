"""A worker's own account of its acceptance is checked before it is compared with anything."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from service.core.exposition import read
from service.core.spec_series import Freshness, Quality, Reading, SpecSample, judge

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telemetry"
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, (FIXTURES / "ops_cases.jsonl").read_text().splitlines())
}


def test_nothing_accepted_under_right_text_is_a_slow_worker_and_no_more() -> None:
    case = CASES["ops-05"]
    told = case["input"]
    sample = SpecSample(accept_length=told["accept_length"], accept_rate=told["accept_rate"])
    assert judge(sample) == case["expected"]["verdict"]
    assert not any(word in judge(sample) for word in case["expected"]["must_not"])


def test_full_acceptance_of_what_was_asked_for_is_healthy() -> None:
    case = CASES["ops-06"]
    told = case["input"]
    sample = SpecSample(
        accept_length=told["mean_acceptance_length"],
        per_position=tuple(told["per_position_acceptance"]),
        draft_tokens=told["num_draft_tokens"] + 1,
    )
    assert judge(sample, repetition_asked_for=True) == case["expected"]["verdict"]
    assert judge(sample) is Reading.SUSPECT


def test_an_impossible_rate_is_rejected() -> None:
    case = CASES["ops-11"]
    sample = SpecSample(accept_rate=case["input"]["accept_rate"])
    assert judge(sample) == case["expected"]["verdict"]


def test_a_ragged_width_makes_the_rate_approximate() -> None:
    case = CASES["ops-12"]
    told = case["input"]
    sample = SpecSample(
        verify_steps=told["spec_verify_ct"],
        correct_drafts=told["correct_drafts"],
        draft_tokens=told["configured_draft_tokens"],
        mean_width=told["actual_mean_width"],
    )
    assert sample.reported_rate == pytest.approx(case["expected"]["accept_rate_reported"])
    assert sample.rate == pytest.approx(case["expected"]["accept_rate_true"])
    assert sample.quality is Quality.APPROXIMATE
    assert sample.length == pytest.approx(2.8)
    assert judge(sample) is Reading.HEALTHY


def test_a_gauge_beside_counters_that_stand_still_is_stale() -> None:
    samples = CASES["ops-18"]["input"]["samples"]
    assert "stale" in CASES["ops-18"]["expected"]["verdict"]
    watch = Freshness()
    fresh = [watch.see({"generation_tokens_total": sample["generation_tokens_total"]}) for sample in samples]
    assert fresh == [False, False]
    assert watch.see({"generation_tokens_total": 1001.0})
    assert not watch.see({"generation_tokens_total": 1001.0})
    assert watch.see({"generation_tokens_total": 0.0})  # the worker restarted: its gauges are new
    assert not watch.see({"generation_tokens_total": math.nan})


def test_a_real_workers_counters_and_gauges_agree() -> None:
    exposition = read((FIXTURES / "vllm-ngram-metrics.txt").read_text())
    sample = SpecSample(
        verify_steps=int(exposition.total("spec_decode_num_drafts_total")),
        correct_drafts=int(exposition.total("spec_decode_num_accepted_tokens_total")),
        draft_tokens=5,
    )
    assert sample.length == pytest.approx(1 + 19 / 32)
    assert sample.rate == pytest.approx(19 / 128)
    assert judge(sample) is Reading.HEALTHY


@pytest.mark.parametrize(
    ("sample", "reading"),
    [
        (SpecSample(), Reading.NO_DATA),
        (SpecSample(accept_length=0.0, accept_rate=0.0), Reading.NO_DATA),
        (SpecSample(accept_rate=0.0), Reading.SPEC_PERFORMANCE),
        (SpecSample(accept_rate=0.4), Reading.HEALTHY),
        (SpecSample(accept_length=0.5), Reading.INVALID),
        (SpecSample(accept_length=math.inf), Reading.INVALID),
        (SpecSample(accept_rate=-0.1), Reading.INVALID),
        (SpecSample(accept_length=3.0, accept_rate=0.97), Reading.SUSPECT),
        (SpecSample(per_position=(0.97, 0.94, 0.89)), Reading.HEALTHY),
        (SpecSample(per_position=(0.02, 0.01)), Reading.SPEC_PERFORMANCE),
    ],
)
def test_every_sample_has_one_reading(sample: SpecSample, reading: Reading) -> None:
    assert judge(sample) is reading
