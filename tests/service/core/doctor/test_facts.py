"""What is read of a worker's and a router's own words, and what is made of words that cannot be read."""

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.doctor.facts import (
    DOCTOR_FAMILIES,
    ROUTER_FAMILIES,
    UNTOLD,
    Engine,
    Listed,
    RouterFlags,
    RouterKind,
    RouterSeen,
    ServerInfo,
    Workers,
    counted_of,
    metrics_of,
    router_flags,
    router_kind,
    server_info,
)
from service.core.exposition import read
from tests.service.core.doctor.clinic import info

FIXTURES = Path(__file__).parents[3] / "fixtures" / "telemetry"


def test_a_real_server_info_is_read() -> None:
    said = server_info((FIXTURES / "sgl-server_info.json").read_bytes())
    assert isinstance(said, ServerInfo)
    assert (said.version, said.role, said.steps, said.decode_log_interval) == (
        "0.5.23",
        "regular",
        UNTOLD,
        40,
    )
    assert said.environment is None


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"stream_interval": "often"}', b"\xff", b"[" * 100_000, b'{"version": 5}']
)
def test_what_is_no_server_info_is_said_to_be_none(body: bytes) -> None:
    assert isinstance(server_info(body), str)


@given(
    st.dictionaries(
        st.sampled_from(sorted(ServerInfo.__struct_fields__)), st.none() | st.integers() | st.text()
    )
)
def test_no_value_of_any_key_raises(told: dict[str, object]) -> None:
    assert server_info(json.dumps(told).encode())


def test_keys_go_no_further_than_set_or_not() -> None:
    said = server_info(json.dumps({"api_key": "sk-much-secret", "version": "1"}).encode())
    assert isinstance(said, ServerInfo)
    assert "secret" not in repr(said)


@pytest.mark.parametrize(
    ("said", "steps"),
    [
        ({"speculative_algorithm": None}, UNTOLD),
        ({"speculative_num_steps": None}, 3),
        ({"speculative_num_steps": 5, "speculative_num_draft_tokens": 16}, 5),
        ({"speculative_num_steps": None, "speculative_num_draft_tokens": None}, UNTOLD),
    ],
)
def test_the_depth_of_a_step_is_the_length_of_a_path(said: dict[str, object], steps: int) -> None:
    assert info(**said).steps == steps


@pytest.mark.parametrize(
    ("listed", "kind"),
    [
        (None, RouterKind.OTHER),
        ([Listed("u", status="ready")], RouterKind.SMG),
        ([Listed("u")], RouterKind.SGLANG_ROUTER),
    ],
)
def test_a_router_is_known_by_its_list(listed: list[Listed] | None, kind: RouterKind) -> None:
    assert router_kind(listed) is kind


def test_a_real_list_of_smg_is_read() -> None:
    listed = msgspec.json.decode((FIXTURES / "smg-workers.json").read_bytes(), type=Workers).workers
    assert router_kind(listed) is RouterKind.SMG
    assert [one.worker_type for one in listed] == ["prefill", "decode", "decode"]


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("", RouterFlags()),
        ("smg launch --policy round_robin --disable-retries", RouterFlags("round_robin", retries_max=1)),
        (
            "x --pd-disaggregation --decode-policy=manual --retry-max-retries 2",
            RouterFlags(decode_policy="manual", retries_max=2, pd=True),
        ),
        ("--dp-aware --retry-max-retries=0", RouterFlags(retries_max=1, dp_aware=True)),
        ("--policy", RouterFlags("")),
    ],
)
def test_a_command_line_tells_policy_and_retries(command: str, flags: RouterFlags) -> None:
    assert router_flags(command) == flags


@pytest.mark.parametrize("command", ["--policy 'manual", "--retry-max-retries many"])
def test_a_command_line_that_cannot_be_read_is_told_so(command: str) -> None:
    assert isinstance(router_flags(command), str)


def test_the_policy_that_counts_is_that_of_the_workers_that_answer() -> None:
    assert RouterFlags("random", "manual", pd=True).answering_policy == "manual"
    assert RouterFlags("random", "manual").answering_policy == "random"
    assert RouterSeen(counted_policy="least_load").policy == "least_load"


def test_smg_counts_its_choices_by_policy() -> None:
    assert counted_of(read(""))[0] == ""
    exposition = read(
        'smg_worker_selection_total{worker_type="prefill",policy="round_robin"} 3\n'
        'smg_worker_selection_total{worker_type="decode",policy="consistent_hashing"} 3\n'
        'smg_worker_retries_total{worker_type="decode"} 2\n',
        ROUTER_FAMILIES,
    )
    assert counted_of(exposition) == ("consistent_hashing", 2.0)


BUCKETS = (
    'sglang:per_stage_req_latency_seconds_bucket{stage="prefill_forward",le="1"} 4\n'
    'sglang:per_stage_req_latency_seconds_bucket{stage="prefill_forward",le="8"} 9\n'
    'sglang:per_stage_req_latency_seconds_bucket{stage="prefill_forward",le="60"} 9\n'
    'sglang:per_stage_req_latency_seconds_bucket{stage="prefill_forward",le="+Inf"} 9\n'
    'sglang:per_stage_req_latency_seconds_bucket{stage="decode_loop",le="600"} 9\n'
    'sglang:per_stage_req_latency_seconds_sum{stage="prefill_forward"} 20\n'
    'sglang:realtime_tokens_total{mode="prefill_compute"} 4000\nsglang:spec_accept_length 2.5\n'
)


def test_the_longest_prefill_is_the_last_bucket_in_use() -> None:
    seen = metrics_of(read(BUCKETS, DOCTOR_FAMILIES))
    assert (seen.engine, seen.speculates) == (Engine.SGLANG, True)
    assert (seen.longest_prefill_s, seen.prefill_tokens_per_s) == (8.0, 200.0)


def test_a_real_prefill_worker_tells_how_long_its_prefills_take() -> None:
    """One prompt of 27 tokens in 106 ms: it fell into the bucket up to 124 ms."""
    seen = metrics_of(read((FIXTURES / "pd-prefill-metrics.txt").read_text(), DOCTOR_FAMILIES))
    assert seen.longest_prefill_s == pytest.approx(0.1245, abs=1e-3)
    assert seen.prefill_tokens_per_s == pytest.approx(27 / 0.10633, rel=1e-3)


def test_metrics_that_say_nothing_give_nothing() -> None:
    seen = metrics_of(read("go_goroutines 5\n", DOCTOR_FAMILIES))
    assert seen.engine is Engine.UNKNOWN
    assert math.isnan(seen.longest_prefill_s)
    assert math.isnan(seen.prefill_tokens_per_s)


@pytest.mark.parametrize(("name", "engine"), [("vllm-ngram", Engine.VLLM), ("sgl-ngram", Engine.SGLANG)])
def test_an_engine_is_known_by_its_metrics(name: str, engine: Engine) -> None:
    seen = metrics_of(read((FIXTURES / f"{name}-metrics.txt").read_text(), DOCTOR_FAMILIES))
    assert (seen.engine, seen.speculates) == (engine, True)
