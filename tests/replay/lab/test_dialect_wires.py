"""Completions, messages and responses as SGLang 0.5.23 writes them: events, their order, their keys."""

import json
from typing import Any

import pytest

from replay.lab.completions_wire import CompletionsWire
from replay.lab.generate_wire import DONE
from replay.lab.intake import Submission
from replay.lab.messages_wire import MessagesWire
from replay.lab.responses_wire import ResponsesWire
from replay.lab.scheduler import RUNNING_ABORT, Aborted, Cached, Generation, Phase
from replay.lab.speculation import StepResult
from replay.lab.tokenizer import EOS, PAD, encode
from replay.lab.wire import Wire

WORDS = encode("set the record fields answer steps by number exactly")
FAILED = Aborted("Decode transfer failed for request rank=0", 500)


def generation(**rest: object) -> Generation:
    fields: dict[str, object] = {
        "rid": "r0000000000000001",
        "prompt": (1, 2, 3),
        "max_new_tokens": 60,
        "ignore_eos": False,
        "stream": True,
        "model": "lab",
        "bootstrap": None,
    }
    return Generation(Submission(**(fields | rest)), Phase.RUNNING)  # type: ignore[arg-type]  # (named above)


def spoken(made: Generation, wire: Wire, *steps: list[int]) -> list[tuple[str | None, dict[str, Any]]]:
    """Say each step, read after each; return (event name, data) without [DONE]."""
    raw = b""
    for at, tokens in enumerate(steps):
        if at:
            made.spec.add(StepResult(4, len(tokens) - 1, tuple(tokens)))
        made.say(tokens)
        if made.finish:
            made.end(made.finish)
        raw += b"".join(wire.chunks())
    if not made.finish:
        made.end(RUNNING_ABORT)
        raw += b"".join(wire.chunks())
    return events(raw)


def events(raw: bytes) -> list[tuple[str | None, dict[str, Any]]]:
    parsed: list[tuple[str | None, dict[str, Any]]] = []
    for block in raw.removesuffix(DONE).split(b"\n\n"):
        lines = block.decode().splitlines()
        name = next((line.removeprefix("event: ") for line in lines if line.startswith("event: ")), None)
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        if data:
            parsed.append((name, json.loads(data[0])))
    return parsed


ANSWER = (WORDS[:1], WORDS[1:4], [*WORDS[4:6], EOS])


def test_a_completion_has_a_chunk_for_each_step_and_null_usage() -> None:
    made = generation()
    got = [data for _, data in spoken(made, CompletionsWire(made), *ANSWER)]
    assert len(got) == 3
    assert list(got[0]) == ["id", "object", "created", "model", "choices", "usage"]
    assert list(got[0]["choices"][0]) == ["index", "text", "logprobs", "finish_reason", "matched_stop"]
    assert got[0]["usage"] is None
    assert "".join(data["choices"][0]["text"] for data in got) == made.text
    assert (got[-1]["choices"][0]["finish_reason"], got[-1]["choices"][0]["matched_stop"]) == ("stop", EOS)


def test_a_completions_growth_and_tokens_tell_each_step() -> None:
    made = generation(continuous_usage=True, include_usage=True, token_ids=True)
    got = [data for _, data in spoken(made, CompletionsWire(made), *ANSWER)]
    assert [data["usage"]["completion_tokens"] for data in got] == [1, 4, 7, 7]
    assert [len(data["choices"][0]["token_ids"]) for data in got[:-1]] == [1, 3, 3]
    assert got[0]["choices"][0]["prompt_token_ids"] == [1, 2, 3]
    assert got[-1]["choices"] == []
    assert None not in got[-1]["usage"].values()


def test_a_completion_without_text_is_seen() -> None:
    made = generation(max_new_tokens=6)
    got = spoken(made, CompletionsWire(made), WORDS[:1], [PAD] * 5)
    assert [data["choices"][0]["text"] for _, data in got] == [made.text, ""]


def test_what_the_cache_held_is_told_where_it_was_asked_for() -> None:
    made = generation(cached_details=True, spec_details=True, include_usage=True)
    made.cached = Cached(device=2, host=1)
    *_, (_, extension), (_, usage) = spoken(made, CompletionsWire(made), *ANSWER)
    assert extension["sglext"]["cached_tokens_details"] == {"device": 2, "host": 1}
    assert extension["sglext"]["spec_tokens_details"]["spec_verify_ct"] == 2
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}


def test_a_whole_completion_echoes_its_prompt() -> None:
    made = generation(stream=False, echo="list: ")
    made.say(WORDS[:3])
    made.end(RUNNING_ABORT)
    status, raw = CompletionsWire(made).whole()
    told = json.loads(raw)
    assert status == 200
    assert list(told) == ["id", "object", "created", "model", "choices", "usage", "metadata"]
    assert told["choices"][0]["text"] == f"list: {made.text}"
    assert told["choices"][0]["finish_reason"] == "abort"


def test_a_message_is_started_filled_and_stopped() -> None:
    made = generation()
    made.cached = Cached(device=1)
    got = spoken(made, MessagesWire(made), *ANSWER)
    names = [name for name, _ in got]
    assert names[:2] == ["message_start", "content_block_start"]
    assert set(names[2:-3]) == {"content_block_delta"}
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert all(name == data["type"] for name, data in got)
    message = got[0][1]["message"]
    assert list(message) == ["id", "type", "role", "content", "model", "usage"]
    assert message["usage"] == {"input_tokens": 2, "cache_read_input_tokens": 1, "output_tokens": 0}
    assert "".join(d["delta"]["text"] for n, d in got if n == "content_block_delta") == made.text
    assert got[-2][1]["delta"] == {"stop_reason": "end_turn"}
    assert got[-2][1]["usage"] == {"output_tokens": 7}


def test_a_message_of_pads_is_silent_until_its_end() -> None:
    made, quiet = generation(max_new_tokens=8), generation(max_new_tokens=99)
    wire = MessagesWire(quiet)
    quiet.say([PAD] * 9)
    assert wire.chunks() == []
    got = spoken(made, MessagesWire(made), [PAD] * 4, [PAD] * 4)
    assert [name for name, _ in got] == ["message_start", "message_delta", "message_stop"]
    assert got[1][1]["delta"]["stop_reason"] == "max_tokens"


def test_a_failed_message_closes_its_block_and_does_not_name_the_cause() -> None:
    made = generation()
    wire = MessagesWire(made)
    made.say(WORDS[:2])
    first = wire.chunks()
    made.end(FAILED)
    got = events(b"".join([*first, *wire.chunks()]))
    assert [name for name, _ in got][-3:] == ["content_block_stop", "error", "message_stop"]
    assert got[-2][1]["error"] == {"type": "api_error", "message": "Internal server error"}
    status, raw = wire.whole()
    assert (status, json.loads(raw)["error"]["type"]) == (500, "api_error")


def test_a_whole_message_has_a_block_even_without_text() -> None:
    made = generation(stream=False, max_new_tokens=3)
    made.say([PAD] * 3)
    made.end(RUNNING_ABORT)
    told = json.loads(MessagesWire(made).whole()[1])
    assert told["content"] == [{"type": "text", "text": ""}]
    assert (told["stop_reason"], told["usage"]["output_tokens"]) == ("max_tokens", 3)


def test_a_response_counts_its_events_and_ends_in_its_status() -> None:
    made = generation(rid="resp_1", instructions="list", max_output_tokens=60)
    got = spoken(made, ResponsesWire(made), *ANSWER)
    names = [name for name, _ in got]
    assert names[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert names[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [data["sequence_number"] for _, data in got] == list(range(len(got)))
    response = got[-1][1]["response"]
    assert response["output"][0]["content"][0]["text"] == made.text
    assert (response["id"], response["usage"]["output_tokens"], response["error"]) == ("resp_1", 7, None)
    assert (response["instructions"], response["max_output_tokens"]) == ("list", 60)
    assert "".join(d["delta"] for n, d in got if n == "response.output_text.delta") == made.text


@pytest.mark.parametrize(
    ("finish", "limit", "last"),
    [
        (None, 4, "response.incomplete"),
        (FAILED, 60, "response.failed"),
        (RUNNING_ABORT, 60, "response.failed"),
    ],
)
def test_a_response_that_did_not_complete_says_so(finish: Aborted | None, limit: int, last: str) -> None:
    made = generation(max_new_tokens=limit)
    wire = ResponsesWire(made)
    made.say(WORDS[:4])
    made.end(made.finish or finish or RUNNING_ABORT)
    name, data = events(b"".join(wire.chunks()))[-1]
    assert name == last
    assert (data["response"]["error"] is None) is (finish is None)
    assert (data["response"]["incomplete_details"] is None) is (finish is not None)


def test_a_whole_response_is_the_object_or_the_engines_error() -> None:
    made, lost = generation(stream=False), generation(stream=False)
    made.say([*WORDS[:3], EOS])
    made.end(RUNNING_ABORT)
    told = json.loads(ResponsesWire(made).whole()[1])
    assert (told["object"], told["status"], len(told["output"])) == ("response", "completed", 1)
    lost.end(FAILED)
    status, raw = ResponsesWire(lost).whole()
    assert (status, json.loads(raw)["object"]) == (500, "error")
