"""What an answer said, in OpenAI's chat and plain completions."""

import json
from typing import Any

import pytest

from replay.answer import UNREADABLE, Answer


def heard(*events: dict[str, Any] | str, done: bool = True) -> Answer:
    answer = Answer()
    payloads = [one.encode() if isinstance(one, str) else json.dumps(one).encode() for one in events]
    payloads += [b"[DONE]"] if done else []
    answer.read(payloads, [float(n) for n in range(len(payloads))])
    return answer


def chunk(delta: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": delta, **more}]}


def test_text_times_counts_and_end_are_kept() -> None:
    answer = heard(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, finish_reason="stop"),
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
        },
        {"choices": [], "sglext": {"spec_tokens_details": {"spec_verify_ct": 2, "spec_accept_length": 1.5}}},
    )
    assert answer.text == "Hello"
    assert answer.times == [1.0, 2.0]
    assert (answer.finish_reason, answer.error, answer.rid) == ("stop", None, "r1")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (9, 2, 4)
    assert answer.spec == {"spec_verify_ct": 2, "spec_accept_length": 1.5}


def test_reasoning_and_tool_calls_are_text_too() -> None:
    call = {"index": 0, "function": {"name": "get", "arguments": '{"a":'}}
    more = {"index": 0, "function": {"arguments": "1}"}}
    answer = heard(
        chunk({"reasoning_content": "hm "}),
        chunk({"content": None, "tool_calls": [call]}),
        chunk({"tool_calls": [more]}),
    )
    assert answer.text == 'hm get{"a":1}'
    assert answer.times == [0.0, 1.0, 2.0]


def test_usage_in_every_chunk_costs_no_text() -> None:
    event = chunk({"content": "a"}) | {"usage": {"prompt_tokens": 1, "completion_tokens": 7}}
    assert (heard(event).text, heard(event).completion_tokens) == ("a", 7)


def test_plain_completions_are_read_alike() -> None:
    answer = heard({"id": "c", "choices": [{"index": 0, "text": "abc", "finish_reason": "length"}]})
    assert (answer.text, answer.finish_reason, answer.rid) == ("abc", "length", "c")


def test_choices_are_told_apart() -> None:
    def part(index: int, text: str) -> dict[str, Any]:
        return {"choices": [{"index": index, "delta": {"content": text}}]}

    assert heard(part(0, "a"), part(1, "x"), part(0, "b"), part(1, "y")).text == "ab\nxy"


def test_a_whole_body_is_read_alike() -> None:
    body = {"id": "b", "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}
    answer = Answer()
    answer.whole(json.dumps(body).encode(), 3.0)
    assert (answer.text, answer.times, answer.finish_reason) == ("hi", [3.0], "stop")


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"error": {"type": "InternalServerError", "message": "secret"}}, "InternalServerError"),
        ({"error": "secret words of the model"}, "error"),
        ({"object": "error", "type": "BadRequestError", "message": "secret"}, "BadRequestError"),
        ("{not json", UNREADABLE),
        ("[]", UNREADABLE),
        ('{"choices": 3}', UNREADABLE),
        ('{"choices":[]},{"choices":[]}', UNREADABLE),
    ],
)
def test_an_error_is_named_and_quotes_nothing(event: dict[str, Any] | str, error: str) -> None:
    answer = heard(chunk({"content": "a"}), event, chunk({"content": "b"}))
    assert answer.error == error
    assert answer.text == "ab"
    assert "secret" not in repr(answer)


def test_the_first_error_stands() -> None:
    assert heard({"error": {"type": "A"}}, {"error": {"type": "B"}}).error == "A"
