"""An engine's log lines, whole or cut, from SGLang or vLLM, become events; users' words never do."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.loglines import CORRUPTION, LogEvent, LogKind, read
from service.core.spec_series import Reading, SpecSample, judge

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telemetry"
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, (FIXTURES / "ops_cases.jsonl").read_text().splitlines())
}
DECODE = (
    "[2026-11-29 16:01:02 DP1 TP0] Decode batch, #running-req: 1, #token: 57, token usage: 0.01, "
    "accept len: 1.20, accept rate: 0.05, pre-allocated usage: 0.10, #prealloc-req: 2, #transfer-req: 3, "
    "#retracted-req: 0, cpu graph: False, gen throughput (token/s): 2.26, #queue-req: 4"
)
FAILED = (
    "[2026-11-29 16:01:02] Decode {} failed for request rank=0 decode_req.req.rid='a1' "
    "decode_req.req.bootstrap_room=777 with exception KVTransferError(bootstrap_room=777): {}"
)

CORRUPTED = (
    "[t] Context corruption detected: Request r-1 (bootstrap_room=5) received metadata from "
    "bootstrap_room=9. Metadata buffer index: 3. This indicates metadata buffer index collision."
)
CANARY = (
    "kv_canary violation: launch_tag=per_forward_head fail_reason=token+hash slot_idx=7 position=9 "
    "stored_token=1 expected_token=2"
)


def event(line: str) -> LogEvent:
    found = read(line)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["ops-07", "ops-08", "ops-15"])
def test_reported_lines_parse_to_the_expected_values(name: str) -> None:
    case = CASES[name]
    found = event(case["input"])
    expected = dict(case["expected"]["parsed"])
    assert found.per_position == tuple(expected.pop("per_position", found.per_position))
    assert {key: found.numbers[key] for key in expected} == expected


@pytest.mark.parametrize(("name", "reading"), [("ops-07", Reading.HEALTHY), ("ops-08", Reading.SUSPECT)])
def test_a_reported_rate_is_judged(name: str, reading: Reading) -> None:
    found = event(CASES[name]["input"])
    sample = SpecSample(accept_rate=found.numbers["accept_rate"], per_position=found.per_position)
    assert judge(sample) is reading
    assert CASES[name]["expected"]["verdict"].startswith(reading)


def test_a_decode_line_tells_acceptance_and_queues() -> None:
    found = event(DECODE)
    assert found.kind is LogKind.DECODE_BATCH
    assert found.dp_rank == 1
    assert found.numbers == {
        "running": 1,
        "tokens": 57,
        "token_usage": 0.01,
        "accept_len": 1.2,
        "accept_rate": 0.05,
        "preallocated_usage": 0.1,
        "prealloc": 2,
        "transfer": 3,
        "retracted": 0,
        "gen_throughput": 2.26,
        "queue": 4,
    }


def test_a_prefill_line_tells_the_cache() -> None:
    found = event(
        "[2026-11-29 16:01:02] Prefill batch [12], #new-seq: 2, #new-token: 27, #cached-token: 4096"
    )
    assert (found.kind, found.numbers["new_sequences"], found.numbers["cached_tokens"]) == (
        LogKind.PREFILL_BATCH,
        2,
        4096,
    )


@pytest.mark.parametrize(
    ("stage", "why", "kind", "reason"),
    [
        ("transfer", "Aborted by AbortReq.", LogKind.TRANSFER_FAILED, "aborted"),
        ("handshake", "Request 777 timed out after 300.0s", LogKind.HANDSHAKE_FAILED, "timeout"),
        ("transfer", "Lost connection with prefill", LogKind.TRANSFER_FAILED, "lost_connection"),
        ("transfer", "Failed due to ... from another rank", LogKind.TRANSFER_FAILED, "other_rank"),
        ("transfer", "something new", LogKind.TRANSFER_FAILED, ""),
    ],
)
def test_a_failed_hand_over_names_request_room_and_reason(
    stage: str, why: str, kind: LogKind, reason: str
) -> None:
    found = event(FAILED.format(stage, why))
    assert (found.kind, found.rid, found.room, found.reason) == (kind, "a1", 777, reason)
    assert kind not in CORRUPTION


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (CORRUPTED, LogEvent(LogKind.CONTEXT_CORRUPTION, rid="r-1", room=5, other_room=9)),
        (
            "[t] KV checksum mismatch req=r-1 bootstrap_room=5 expected=0x1 got=0x2",
            LogEvent(LogKind.CHECKSUM_MISMATCH, rid="r-1", room=5),
        ),
        (
            "[t] Deferred KV release for room 5 timed out after 30.0s without a full drain ack",
            LogEvent(LogKind.DEFERRED_RELEASE_TIMEOUT, {"after_s": 30}, room=5),
        ),
        (CANARY, LogEvent(LogKind.CANARY_VIOLATION, {"slot": 7, "position": 9}, reason="token+hash")),
        ("[t] NaN detected in logits; values were sanitized before sampling.", LogEvent(LogKind.NAN)),
    ],
)
def test_the_engines_own_checks_are_evidence(line: str, expected: LogEvent) -> None:
    assert read(line) == expected
    assert expected.kind in CORRUPTION


@pytest.mark.parametrize(
    ("line", "kind", "numbers"),
    [
        ("[t] avg_spec_accept_length=2.75", LogKind.ACCEPTANCE, {"accept_len": 2.75}),
        (
            "[t] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 5",
            LogKind.RETRACTION,
            {"retracted": 3},
        ),
        ("[t] Scheduler hit an exception: Traceback", LogKind.CRASH, {}),
        ("[t] Metadata unexpectedly not ready after readiness gate", LogKind.METADATA_NOT_READY, {}),
    ],
)
def test_other_lines_of_interest(line: str, kind: LogKind, numbers: dict[str, float]) -> None:
    assert (event(line).kind, event(line).numbers) == (kind, numbers)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[2026-11-29 16:01:02] INFO: 127.0.0.1 - POST /generate HTTP/1.1 200 OK",
        "Receive: obj=GenerateReqInput(text='Context corruption detected: Request x')",
        '[t] {"timestamp": "x", "event": "request.finished", "out": {"text": "KV checksum mismatch req=1"}}',
        "x" * 300 + " kv_canary violation: launch_tag=a fail_reason=b",
        "Decode batch",
        "Per-position acceptance rate: none",
        "cached=what",
    ],
)
def test_everything_else_is_nothing(line: str) -> None:
    assert read(line) is None


@given(st.integers(0, 400))
def test_a_line_cut_anywhere_gives_what_is_left_of_it(cut: int) -> None:
    found = read(DECODE[:cut])
    if found is not None:
        whole = event(DECODE).numbers
        assert set(found.numbers) <= set(whole)


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    for words in ("", "Decode batch, ", "kv_canary violation: ", "Deferred KV release ", "cached= "):
        read(words + text)
