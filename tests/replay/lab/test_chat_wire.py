"""The OpenAI dialect, against captures of SGLang 0.5.23; silence where the engine is silent."""

import json
from pathlib import Path
from typing import Any

import pytest

from replay.lab.chat_wire import ChatWire
from replay.lab.generate_wire import DONE
from replay.lab.intake import Submission
from replay.lab.scheduler import RUNNING_ABORT, Aborted, Generation, Phase
from replay.lab.speculation import StepResult
from replay.lab.tokenizer import EOS, PAD, encode

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
WORDS = encode("set the record fields answer steps by number exactly")


def events(raw: bytes) -> list[dict[str, Any]]:
    assert raw.endswith(b"\n\n")
    return [
        json.loads(block.removeprefix(b"data: "))
        for block in raw.split(b"\n\n")
        if block and block != b"data: [DONE]"
    ]


def captured(name: str) -> list[dict[str, Any]]:
    return events((CAPTURES / name).read_bytes())


def generation(**rest: object) -> Generation:
    fields: dict[str, object] = {
        "rid": "r0000000000000001",
        "prompt": (1, 2, 3),
        "max_new_tokens": 60,
        "ignore_eos": False,
        "stream": True,
        "model": "lab",
        "bootstrap": None,
        "chat": True,
    }
    return Generation(Submission(**(fields | rest)), Phase.RUNNING)  # type: ignore[arg-type]  # (named above)


def stream(made: Generation, *steps: list[int]) -> list[dict[str, Any]]:
    """Say each step, read after each; the answer ends with the last one."""
    wire, raw = ChatWire(made), b""
    for at, tokens in enumerate(steps):
        if at:
            made.spec.add(StepResult(4, len(tokens) - 1, tuple(tokens)))
        made.say(tokens)
        if made.finish or at == len(steps) - 1:
            made.end(RUNNING_ABORT)
        raw += b"".join(wire.chunks())
    assert raw.endswith(DONE)
    return events(raw)


def shape(event: dict[str, Any]) -> dict[str, Any]:
    """Keys in order, all the way down; which values are null."""
    return {
        key: shape(value)
        if isinstance(value, dict)
        else [shape(item) if isinstance(item, dict) else "item" for item in value]
        if key == "choices"
        else value is None
        for key, value in event.items()
    }


def test_every_kind_of_chunk_looks_as_captured() -> None:
    made = generation(continuous_usage=True, include_usage=True, spec_details=True)
    ours = stream(made, WORDS[:1], WORDS[1:3], [*WORDS[3:5], EOS])
    theirs = captured("sgl-ngram-chat-stream-usage.sse")
    role, first, *_, finish, sglext, usage = theirs
    assert [json.dumps(shape(event)) for event in ours] == [
        json.dumps(shape(event)) for event in (role, first, first, first, finish, sglext, usage)
    ]
    assert ours[0]["choices"][0]["delta"] == role["choices"][0]["delta"]
    assert ours[-3]["choices"][0]["finish_reason"] == "stop"
    assert ours[-3]["choices"][0]["matched_stop"] == EOS


def test_without_options_there_is_no_usage_and_no_extension() -> None:
    ours = stream(generation(max_new_tokens=3), WORDS[:1], WORDS[1:4])
    theirs = captured("sgl-ngram-chat-stream.sse")
    role, first, *_, finish, _usage = theirs
    assert [shape(event) for event in ours] == [shape(event) for event in (role, first, first, finish)]


def test_usage_grows_by_one_verify_step_a_chunk() -> None:
    made = generation(continuous_usage=True)
    ours = stream(made, WORDS[:1], WORDS[1:4], [*WORDS[4:6], EOS])
    assert [event["usage"]["completion_tokens"] for event in ours if "usage" in event] == [1, 4, 7]
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in ours) == made.text


def test_a_stream_of_invisible_tokens_is_silent_while_its_usage_grows() -> None:
    made = generation(include_usage=True, continuous_usage=True)
    wire = ChatWire(made)
    made.say(WORDS[:1])
    role_and_word = wire.chunks()
    for _ in range(5):
        made.say([PAD] * 5)
        assert wire.chunks() == []
    made.end(RUNNING_ABORT)
    finish, usage = events(b"".join(wire.chunks()))
    assert len(role_and_word) == 2
    assert finish["choices"][0]["delta"] == {"reasoning_content": None}
    assert usage["usage"]["completion_tokens"] == 26


def test_a_first_token_without_text_still_brings_the_role() -> None:
    made = generation()
    made.say([PAD])
    (role,) = events(b"".join(ChatWire(made).chunks()))
    assert role["choices"][0]["delta"]["role"] == "assistant"


@pytest.mark.parametrize("name", ["sgl-ngram-chat.json", "sgl-plain-chat.json"])
def test_a_whole_answer_looks_as_captured(name: str) -> None:
    made = generation(stream=False, max_new_tokens=3)
    made.say(WORDS)
    made.end(RUNNING_ABORT)
    status, body = ChatWire(made).whole()
    ours, theirs = json.loads(body), json.loads((CAPTURES / name).read_text())
    assert status == 200
    assert json.dumps(shape(ours)) == json.dumps(shape(theirs))
    assert list(ours["choices"][0]["message"]) == list(theirs["choices"][0]["message"])
    assert ours["choices"][0]["finish_reason"] == "length"


def test_a_whole_answer_can_tell_its_speculative_counts() -> None:
    made = generation(stream=False, spec_details=True)
    made.say(WORDS[:1])
    made.spec.add(StepResult(4, 1, (5, 6)))
    made.say(WORDS[1:3])
    made.end(RUNNING_ABORT)
    details = json.loads(ChatWire(made).whole()[1])["sglext"]["spec_tokens_details"]
    theirs = captured("sgl-ngram-chat-stream-usage.sse")[-2]["sglext"]["spec_tokens_details"]
    assert list(details) == list(theirs)
    assert details["spec_correct_drafts_histogram"] == [0, 1]


def test_an_abort_ends_the_stream_with_the_reason_abort() -> None:
    ours = stream(generation(), WORDS[:1], WORDS[1:2])
    assert ours[-1]["choices"][0]["finish_reason"] == "abort"


def test_a_failed_request_ends_in_an_error_event_and_done() -> None:
    made = generation()
    made.end(Aborted("Decode transfer failed", 500))
    error, done = ChatWire(made).chunks()
    assert done == DONE
    assert events(error)[0]["error"] == {
        "object": "error",
        "message": "Decode transfer failed",
        "type": "INTERNAL_SERVER_ERROR",
        "param": None,
        "code": 500,
    }
    assert ChatWire(made).whole()[0] == 500
