"""Answers in Anthropic's messages, OpenAI's responses and SGLang's own dialect."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from replay.answer import UNREADABLE, Answer
from replay.dialects import answer_for


def heard(path: str, *events: dict[str, Any] | str) -> Answer:
    answer = answer_for(path)
    payloads = [one.encode() if isinstance(one, str) else json.dumps(one).encode() for one in events]
    answer.read(payloads, [float(n) for n in range(len(payloads))])
    return answer


def whole(path: str, body: object) -> Answer:
    answer = answer_for(path)
    answer.whole(json.dumps(body).encode(), 2.0)
    return answer


MESSAGES: Sequence[dict[str, Any]] = (
    {"type": "message_start", "message": {"id": "m1", "content": [], "usage": {"input_tokens": 9}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
)


def test_messages_stream() -> None:
    answer = heard("/v1/messages", *MESSAGES)
    assert (answer.text, answer.times) == ("hm hi{}", [3.0, 4.0, 5.0])
    assert (answer.rid, answer.finish_reason, answer.error) == ("m1", "end_turn", None)
    assert (answer.prompt_tokens, answer.completion_tokens) == (9, 3)


def test_a_whole_message() -> None:
    body = {
        "id": "m2",
        "type": "message",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 8},
    }
    answer = whole("/v1/messages", body)
    assert (answer.text, answer.rid, answer.finish_reason) == ("hi", "m2", "max_tokens")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (9, 1, 8)


def test_responses_stream() -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}}
    final = {
        "id": "r1",
        "status": "completed",
        "usage": usage,
        "output": [{"content": [{"text": "ok"}]}],
    }
    answer = heard(
        "/v1/responses?x=1",
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress"}},
        {"type": "response.output_text.delta", "delta": "o"},
        {"type": "response.output_text.delta", "delta": "k"},
        {"type": "response.output_text.done", "text": "ok"},
        {"type": "response.completed", "response": final},
    )
    assert (answer.text, answer.rid, answer.finish_reason) == ("ok", "r1", "completed")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (5, 2, 1)


def test_a_whole_response() -> None:
    body = {
        "id": "r2",
        "status": "incomplete",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}],
    }
    answer = whole("/v1/responses", body)
    assert (answer.text, answer.finish_reason) == ("a", "incomplete")


@pytest.mark.parametrize(
    ("path", "event", "error"),
    [
        ("/v1/messages", {"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        ("/v1/responses", {"type": "response.failed", "response": {"error": {"code": "x"}}}, "error"),
        ("/v1/responses", {"type": "error", "message": "secret"}, "error"),
        ("/v1/messages", "{", UNREADABLE),
        ("/generate", "{", UNREADABLE),
        ("/generate", {"error": {"type": "InternalError", "message": "x"}}, "InternalError"),
    ],
)
def test_an_error_is_named(path: str, event: dict[str, Any] | str, error: str) -> None:
    assert heard(path, event).error == error


def generated(text: str, tokens: int, **more: object) -> dict[str, Any]:
    meta = {"id": "g1", "prompt_tokens": 7, "completion_tokens": tokens, "cached_tokens": 3, **more}
    return {"text": text, "output_ids": list(range(tokens)), "meta_info": {"finish_reason": None, **meta}}


def test_generate_tells_new_text_once_with_the_steps_of_the_probe() -> None:
    answer = heard(
        "/generate",
        generated("a", 1, specguard_accepted=[]),
        generated("abc", 3, specguard_accepted=[1]),
        generated(
            "abcd", 4, specguard_accepted=[1, 0], finish_reason={"type": "stop"}, spec_accept_length=1.5
        ),
        "[DONE]",
    )
    assert (answer.text, answer.times, answer.finish_reason) == ("abcd", [0.0, 1.0, 2.0], "stop")
    assert (answer.rid, answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (
        "g1",
        7,
        4,
        3,
    )
    assert answer.steps == [(-1, 1), (-1, 0)]
    assert answer.spec == {"spec_accept_length": 1.5}


def test_a_whole_generation() -> None:
    answer = whole("/generate", generated("abc", 3, finish_reason={"type": "length"}))
    assert (answer.text, answer.finish_reason, answer.rid) == ("abc", "length", "g1")


def test_generations_of_several_choices_keep_their_texts() -> None:
    answer = whole("/generate", [generated("ab", 2), generated("xy", 2)])
    assert answer.text == "ab\nxy"
