"""The native dialect, against captures of SGLang 0.5.23: keys, their order, null or not, framing."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from replay.lab.generate_wire import DONE, GenerateWire
from replay.lab.intake import Submission
from replay.lab.scheduler import RUNNING_ABORT, Aborted, Generation, Phase
from replay.lab.speculation import StepResult
from replay.lab.tokenizer import EOS

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
WHOLE_ONLY = {"decode_throughput"}
"""Stamped by a server that does both stages, in neither PD capture."""
UNIFIED_ONLY = {"storage_prefetch_wait", "storage_staging_wait", "prefill_finished_time"} | WHOLE_ONLY
"""Stations of the prefill stage: a decode worker has none of them (pd-decode-resp.json)."""


def capture(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((CAPTURES / name).read_text())
    return parsed


def events(raw: bytes) -> list[dict[str, Any]]:
    assert raw.endswith(b"\n\n")
    return [
        json.loads(block.removeprefix(b"data: "))
        for block in raw.split(b"\n\n")
        if block and block != b"data: [DONE]"
    ]


def generation(*, stream: bool, limit: int = 9) -> Generation:
    asked = Submission("r" * 16, (1, 2, 3), limit, False, stream, "lab", None)  # noqa: FBT003 (field order)
    made = Generation(asked, Phase.WAITING)
    made.enter_forward()
    return made


def run_steps(made: Generation, *steps: tuple[int, ...]) -> None:
    for tokens in steps:
        made.spec.add(StepResult(4, len(tokens) - 1, tokens))
        made.say(tokens)


def streamed() -> list[dict[str, Any]]:
    """First token, two verify steps, the limit."""
    made = generation(stream=True)
    wire, raw = GenerateWire(made, prefill=False), b""
    for tokens in ((40,), (41, 42, 43), (44, 45, 46, 47, 48)):
        if made.output:
            made.spec.add(StepResult(4, len(tokens) - 1, tokens))
        made.say(tokens)
        if made.finish:
            made.end(made.finish)
        raw += b"".join(wire.chunks())
    assert raw.endswith(DONE)
    return events(raw)


def nulls(item: dict[str, Any]) -> dict[str, bool]:
    return {key: value is None for key, value in item.items()}


def test_a_decode_answer_has_the_keys_of_the_pd_capture_in_its_order_and_spec_fields() -> None:
    made = generation(stream=False)
    made.say((40,))
    run_steps(made, (41, 42), (43, 44, 45, 46), (47, 48, 49))
    made.end(RUNNING_ABORT)
    status, body = GenerateWire(made, prefill=False).whole()
    ours, theirs = json.loads(body), capture("pd-decode-resp.json")
    assert status == 200
    assert list(ours) == list(theirs)
    spec = [key for key in capture("sgl-ngram-generate.json")["meta_info"] if key.startswith("spec_")]
    expected = list(theirs["meta_info"])
    at = expected.index("e2e_latency") + 1
    assert list(ours["meta_info"]) == [*expected[:at], *spec, *expected[at:]]
    for key, null in nulls(theirs["meta_info"]).items():
        assert (ours["meta_info"][key] is None) is null, key
        assert type(ours["meta_info"][key]) is type(theirs["meta_info"][key]), key


def test_a_prefill_answer_has_the_keys_of_the_pd_capture_in_its_order() -> None:
    made = generation(stream=False)
    made.stamps.prefill_finished_wall = 1.0
    made.hand_over(40)
    ours = json.loads(GenerateWire(made, prefill=True).whole()[1])
    theirs = capture("pd-prefill-resp.json")
    assert list(ours) == list(theirs)
    assert list(ours["meta_info"]) == list(theirs["meta_info"])
    assert nulls(ours["meta_info"]) == nulls(theirs["meta_info"])
    assert ours["meta_info"]["finish_reason"] == theirs["meta_info"]["finish_reason"]
    assert ours["meta_info"]["completion_tokens"] == 1


@pytest.mark.parametrize("at", [0, 1, -1])
def test_a_chunk_has_the_keys_of_a_captured_chunk_in_its_order(at: int) -> None:
    theirs = events((CAPTURES / "sgl-ngram-generate-stream.sse").read_bytes())[at]
    ours = streamed()[at]
    assert list(ours) == list(theirs)
    assert list(ours["meta_info"]) == [key for key in theirs["meta_info"] if key not in UNIFIED_ONLY]
    assert nulls({**ours["meta_info"], "cached_tokens_details": 0}) == {
        key: null
        for key, null in nulls({**theirs["meta_info"], "cached_tokens_details": 0}).items()
        if key not in UNIFIED_ONLY
    }


def test_text_and_ids_are_cumulative_and_tokens_grow_by_one_step_a_chunk() -> None:
    chunks = streamed()
    assert [chunk["meta_info"]["completion_tokens"] for chunk in chunks] == [1, 4, 9]
    for before, after in pairwise(chunks):
        assert after["text"].startswith(before["text"])
        assert after["output_ids"][: len(before["output_ids"])] == before["output_ids"]


def test_spec_fields_are_on_the_last_chunk_only_and_add_up() -> None:
    *early, last = (chunk["meta_info"] for chunk in streamed())
    assert not any(key.startswith("spec_") for meta in early for key in meta)
    assert last["spec_correct_drafts_histogram"] == [0, 0, 1, 0, 1]
    assert last["spec_num_correct_drafts"] == 6
    assert last["spec_num_proposed_drafts"] == 8
    assert last["spec_accept_rate"] == 0.75
    assert last["spec_accept_length"] == 9 / 2


def test_a_slow_reader_gets_merged_chunks_and_loses_nothing() -> None:
    made = generation(stream=True)
    wire = GenerateWire(made, prefill=False)
    made.say((40,))
    run_steps(made, (41, 42), (43,))
    (chunk,) = events(b"".join(wire.chunks()))
    assert chunk["output_ids"] == [40, 41, 42, 43]
    assert wire.chunks() == []


@pytest.mark.parametrize("name", ["sgl-ngram-generate.json", "sgl-fault-nan.json"])
def test_finish_by_length_looks_as_captured(name: str) -> None:
    theirs = capture(name)["meta_info"]["finish_reason"]
    ours = streamed()[-1]["meta_info"]["finish_reason"]
    assert ours == {**theirs, "length": 9}


def test_eos_is_a_stop_with_its_token_and_not_in_the_text() -> None:
    made = generation(stream=False)
    made.say((40, EOS))
    made.end(RUNNING_ABORT)
    body = json.loads(GenerateWire(made, prefill=False).whole()[1])
    assert body["meta_info"]["finish_reason"] == {"type": "stop", "matched": EOS}
    assert body["output_ids"] == [40, EOS]


def test_an_abort_while_running_is_a_200_with_the_text_so_far() -> None:
    made = generation(stream=False)
    made.say((40, 41))
    made.end(RUNNING_ABORT)
    status, body = GenerateWire(made, prefill=False).whole()
    reason = json.loads(body)["meta_info"]["finish_reason"]
    assert status == 200
    assert reason == {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


def test_a_failed_transfer_is_a_500_or_a_last_chunk_that_says_so() -> None:
    made = generation(stream=False)
    made.end(Aborted("Decode transfer failed", 500))
    status, body = GenerateWire(made, prefill=False).whole()
    assert status == 500
    assert json.loads(body) == {
        "object": "error",
        "message": "Decode transfer failed",
        "type": "500",
        "param": None,
        "code": 500,
    }
    (chunk,) = events(b"".join(GenerateWire(made, prefill=False).chunks()))
    assert chunk["meta_info"]["finish_reason"]["status_code"] == 500
    assert chunk["meta_info"]["finish_reason"]["type"] == "abort"
