"""Expositions of several engines in several spellings, whole or broken, are read for what they hold."""

import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.exposition import MAX_BYTES, MAX_SERIES, by_worker, canonical, read

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telemetry"
CASES = {
    case["id"]: case for case in map(json.loads, (FIXTURES / "ops_cases.jsonl").read_text().splitlines())
}


def test_both_spellings_are_one_family() -> None:
    case = CASES["ops-16"]
    exposition = read(case["input"])
    assert {(one.engine, one.family) for one in exposition.series} == {
        ("sglang", case["expected"]["canonical"])
    }
    assert list(exposition.values("spec_accept_length")) == [3.1, 3.1]
    assert list(exposition.values("spec_accept_length", worker_addr="http://w1:30000")) == [3.1]


def test_a_name_with_underscores_is_the_same_name() -> None:
    case = CASES["ops-17"]
    name = case["input"]["body"].split()[0]
    assert canonical(name) == canonical(case["expected"]["stored_name"]) == ("sglang", "cache_hit_rate")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("sglang:spec_accept_rate", ("sglang", "spec_accept_rate")),
        ("vllm:spec_decode_num_drafts_total", ("vllm", "spec_decode_num_drafts_total")),
        ("smg_worker_pool_size", ("smg", "worker_pool_size")),
        ("process_start_time_seconds", ("", "process_start_time_seconds")),
        ("sglangs:x", ("", "sglangs:x")),
    ],
)
def test_a_prefix_names_the_engine(name: str, known: tuple[str, str]) -> None:
    assert canonical(name) == known


def test_a_real_worker_is_read() -> None:
    exposition = read((FIXTURES / "sgl-ngram-metrics.txt").read_text())
    assert exposition.mean("spec_accept_length") == 1.2
    assert exposition.mean("spec_accept_rate") == 0.05
    assert exposition.mean("spec_num_draft_tokens") == 5
    assert exposition.total("spec_verify_calls_total") == 106
    assert exposition.total("realtime_tokens_total", mode="decode") > 0
    assert exposition.counts["unreadable"] == 0


def test_a_real_decode_worker_shows_its_deferred_release_timeout() -> None:
    exposition = read((FIXTURES / "pd-decode-metrics.txt").read_text())
    assert exposition.total("decode_deferred_kv_release_total", outcome="timeout") == 1
    assert exposition.total("num_transfer_failed_reqs_total") == 1
    assert math.isnan(exposition.total("decode_deferred_kv_release_total", outcome="error"))


def test_a_real_vllm_is_read() -> None:
    exposition = read((FIXTURES / "vllm-ngram-metrics.txt").read_text())
    drafts = exposition.total("spec_decode_num_drafts_total")
    accepted = exposition.total("spec_decode_num_accepted_tokens_total")
    assert (drafts, accepted) == (32, 19)
    positions = [
        exposition.total("spec_decode_num_accepted_tokens_per_pos_total", position=str(place))
        for place in range(4)
    ]
    assert positions == [14, 3, 2, 0]
    assert {one.engine for one in exposition.series} <= {"vllm", ""}


def test_labels_may_hold_anything() -> None:
    text = 'sglang:gen_throughput{model_name="a{b},\\"c\\\\ \\n d",x="1",} 2.5 1700000000000\n'
    (one,) = read(text).series
    assert one.labels == {"model_name": 'a{b},"c\\ \n d', "x": "1"}
    assert one.value == 2.5


def test_exemplars_and_types_are_left_alone() -> None:
    text = '# TYPE x counter\nsglang:num_queue_reqs 3 # {trace_id="x"} 1\n# EOF\n'
    assert [one.value for one in read(text).series] == [3]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sglang:spec_accept_length 3.", "torn"),
        ('sglang:spec_accept_length{a="1" 3.1\n', "unreadable"),
        ("sglang:spec_accept_length{} \n", "unreadable"),
        ("sglang:spec_accept_length three\n", "unreadable"),
        ("sglang:spec_accept_length{a=1} 3\n", "unreadable"),
        ("sglang:spec_accept_length NaN\n", "not_finite"),
        ("sglang:spec_accept_length +Inf\n", "not_finite"),
        ("sglang:spec_accept_length{a=" + '"' + "x" * 5000 + '"} 1\n', "over_the_limit"),
    ],
)
def test_what_cannot_be_read_is_counted_and_passed_over(text: str, reason: str) -> None:
    exposition = read("sglang:num_queue_reqs 1\n" + text)
    assert [one.value for one in exposition.series] == [1]
    assert exposition.counts[reason] == 1


def test_a_million_series_are_bounded_in_time_and_memory() -> None:
    lines = "".join(f'sglang:gen_throughput{{r="{number}"}} 1\n' for number in range(1_000_000))
    assert len(lines) > 4 * MAX_BYTES
    begun = time.thread_time()
    exposition = read(lines)
    assert time.thread_time() - begun < 2
    assert len(exposition.series) == MAX_SERIES
    assert exposition.counts["over_the_limit"] > 1


def test_an_empty_wish_wants_everything() -> None:
    assert [one.family for one in read("anything 1\nsglang:more 2\n", frozenset()).series] == [
        "anything",
        "more",
    ]


@given(st.text(alphabet='sglang:_{}="\\,. 1Na\n\r\t#', max_size=200))
def test_no_text_raises(text: str) -> None:
    read(text, frozenset())
    read("sglang:num_queue_reqs" + text)


def test_what_a_router_relays_is_taken_apart_by_worker() -> None:
    text = (
        '# TYPE a counter\na{worker_addr="http://w:1"} 1\na{x="y",worker_addr="http://w:2",z="0"} 2\n'
        'b{worker_addr="http://w:1"} 3\nnobodys 4\ntorn{worker_addr="http://w'
    )
    parts = by_worker(text)
    assert {url: [one.value for one in read(part, frozenset()).series] for url, part in parts.items()} == {
        "http://w:1": [1, 3],
        "http://w:2": [2],
    }
