"""Three more dialects are read as the engine reads them; what cannot be honoured is named."""

import json
from collections.abc import Callable

import pytest

from replay.lab.dialect_intake import count_messages_tokens, read_completion, read_messages, read_responses
from replay.lab.intake import RequestError, Submission, read_chat
from replay.lab.tasks import prompt_ids
from replay.lab.tokenizer import encode

SAID = "repeat the block exactly:"
PAIR = {"bootstrap_host": "127.0.0.1", "bootstrap_port": 8998, "bootstrap_room": 7}


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


CHAT = read_chat(
    body(messages=[{"role": "system", "content": "list"}, {"role": "user", "content": SAID}])
).prompt


@pytest.mark.parametrize("prompt", [SAID, [SAID], prompt_ids(SAID), [prompt_ids(SAID)]])
def test_a_completions_prompt_is_the_prompt_however_it_is_wrapped(prompt: object) -> None:
    asked = read_completion(body(prompt=prompt, **PAIR))
    assert asked.prompt == tuple(prompt_ids(SAID))
    assert asked.max_new_tokens == 16
    assert asked.bootstrap is not None
    assert asked.bootstrap.room == 7


def test_a_completion_says_what_its_stream_shall_carry() -> None:
    asked = read_completion(
        body(
            prompt=SAID,
            stream=True,
            stream_options={"include_usage": True, "continuous_usage_stats": True},
            return_token_ids=True,
            return_cached_tokens_details=True,
            return_spec_tokens_details=True,
            echo=True,
            seed=5,
            temperature=0.5,
        )
    )
    flags = (asked.stream, asked.include_usage, asked.continuous_usage, asked.token_ids)
    assert flags == (True, True, True, True)
    assert (asked.cached_details, asked.spec_details, asked.echo) == (True, True, SAID)
    assert (asked.seed, asked.temperature) == (5, 0.5)


@pytest.mark.parametrize(
    ("system", "content"),
    [
        ("list", SAID),
        ([{"type": "text", "text": "list"}], [{"type": "text", "text": SAID}]),
        ("list", [{"type": "image", "source": {}}, {"type": "text", "text": SAID}]),
        ("list", [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": SAID}]}]),
        ("list", [{"type": "tool_result", "tool_use_id": "t", "content": SAID}]),
    ],
)
def test_a_message_is_the_chat_that_its_text_makes(system: object, content: object) -> None:
    messages = [{"role": "user", "content": content}]
    asked = read_messages(
        body(model="m", max_tokens=9, system=system, messages=messages, tools=[{"name": "x"}])
    )
    assert asked.prompt == CHAT
    assert (asked.max_new_tokens, asked.chat, asked.model) == (9, True, "m")
    assert count_messages_tokens(body(system=system, messages=messages)) == len(CHAT)


@pytest.mark.parametrize(
    "said",
    [
        SAID,
        [{"role": "user", "content": SAID}],
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": SAID}]}],
        [{"type": "function_call_output", "call_id": "c", "output": SAID}],
    ],
)
def test_a_response_is_asked_with_instructions_and_input(said: object) -> None:
    asked = read_responses(body(instructions="list", input=said, max_output_tokens=8, stream=True))
    assert asked.prompt == CHAT
    assert asked.rid.startswith("resp_")
    assert (asked.instructions, asked.max_output_tokens, asked.max_new_tokens) == ("list", 8, 8)


def test_a_clients_own_ids_are_kept() -> None:
    assert read_completion(body(prompt=SAID, rid="a" * 32)).rid == "a" * 32
    assert read_responses(body(input=SAID, request_id="resp_1")).rid == "resp_1"
    assert read_responses(body(input=SAID, request_id="resp_1", rid="b" * 32)).rid == "b" * 32


@pytest.mark.parametrize(
    ("read", "fields", "named"),
    [
        (read_completion, {"prompt": []}, "empty"),
        (read_completion, {"prompt": [SAID, SAID]}, "one prompt"),
        (read_completion, {"prompt": [1, "x"]}, "one prompt"),
        (read_completion, {"prompt": [99999]}, "input_ids"),
        (read_completion, {"prompt": SAID, "n": 2}, "n must be 1"),
        (read_completion, {"prompt": SAID, "logprobs": 3}, "log prob"),
        (read_completion, {}, "prompt"),
        (read_messages, {"messages": [], "max_tokens": 5}, "empty"),
        (read_messages, {"messages": [{"role": "user", "content": SAID}]}, "max_tokens"),
        (read_messages, {"messages": [{"role": "user"}], "max_tokens": 5, "stop_sequences": ["x"]}, "stop"),
        (read_responses, {"input": SAID, "previous_response_id": "resp_0"}, "previous_response_id"),
        (read_responses, {"input": []}, "empty"),
    ],
)
def test_what_cannot_be_honoured_is_named(
    read: Callable[[bytes], Submission], fields: dict[str, object], named: str
) -> None:
    with pytest.raises(RequestError, match=named):
        read(body(**fields))


def test_the_template_is_the_same_for_all() -> None:
    assert CHAT[-len(encode("answer:\n")) :] == tuple(encode("answer:\n"))
