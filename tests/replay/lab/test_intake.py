"""What a request may say, and how a bad one is refused."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lab.intake import CONTEXT_TOKENS, DEFAULT_NEW_TOKENS, RequestError, read_chat, read_generate
from replay.lab.tasks import flatten, prompt_ids

MESSAGES = [{"role": "system", "content": "# set record."}, {"role": "user", "content": "get fields:"}]
PAIR = {"bootstrap_host": "127.0.0.1", "bootstrap_port": 8998, "bootstrap_room": 4242017025632685825}


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_native_request_is_read() -> None:
    asked = read_generate(
        body(text="get fields:", rid="abc", stream=True, sampling_params={"max_new_tokens": 7}, **PAIR)
    )
    assert asked.prompt == tuple(prompt_ids("get fields:"))
    assert (asked.rid, asked.stream, asked.max_new_tokens, asked.chat) == ("abc", True, 7, False)
    assert asked.bootstrap is not None
    assert asked.bootstrap.room == PAIR["bootstrap_room"]


def test_token_ids_may_stand_for_text() -> None:
    assert read_generate(body(input_ids=[1, 9, 8])).prompt == (1, 9, 8)


def test_defaults_are_the_engines() -> None:
    first, second = read_generate(body(text="get")), read_generate(body(text="get"))
    assert first.max_new_tokens == DEFAULT_NEW_TOKENS
    assert (first.stream, first.temperature, first.bootstrap) == (False, 0.0, None)
    assert len(first.rid) == 32
    assert first.rid != second.rid


def test_a_chat_is_flattened_by_the_models_template() -> None:
    asked = read_chat(body(messages=MESSAGES, model="m"))
    assert asked.prompt == tuple(prompt_ids(flatten(MESSAGES)))  # type: ignore[arg-type]  # (plain dicts)
    assert asked.max_new_tokens == CONTEXT_TOKENS - len(asked.prompt)
    assert (asked.chat, asked.model) == (True, "m")


def test_content_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "get "}, {"type": "text", "text": "fields:"}]
    whole = read_chat(body(messages=[{"role": "user", "content": "get fields:"}]))
    assert read_chat(body(messages=[{"role": "user", "content": parts}])).prompt == whole.prompt


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_both_names_of_the_limit_count(name: str) -> None:
    assert read_chat(body(messages=MESSAGES, **{name: 9})).max_new_tokens == 9


def test_stream_options_are_read() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    asked = read_chat(body(messages=MESSAGES, stream_options=options, return_spec_tokens_details=True))
    assert (asked.include_usage, asked.continuous_usage, asked.spec_details) == (True, True, True)


def test_unknown_fields_and_nulls_of_a_router_do_no_harm() -> None:
    asked = read_generate(
        body(text="get", model="unknown", input_ids=None, priority=3, sampling_params={"top_k": 1})
    )
    assert asked.model == "unknown"


def test_a_sampled_request_always_has_a_seed() -> None:
    one, two = (read_chat(body(messages=MESSAGES, temperature=0.7)) for _ in range(2))
    assert one.temperature == 0.7
    assert one.seed != two.seed
    assert read_chat(body(messages=MESSAGES, temperature=0.7, seed=5)).seed == 5


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"{bad", "Bad Request"),
        (b"", "Bad Request"),
        (b"[]", "Bad Request"),
        (b'{"text": "\xff"}', "Bad Request"),
        (body(text=5), "Bad Request"),
        (body(text=["a", "b"]), "Bad Request"),
        (body(), "BadRequestError"),
        (body(text="a", input_ids=[1]), "BadRequestError"),
        (body(input_ids=[]), "BadRequestError"),
        (body(text="a", sampling_params={"max_new_tokens": 0}), "BadRequestError"),
        (body(text="a", sampling_params={"max_new_tokens": 5000}), "BadRequestError"),
        (body(text="a", sampling_params={"n": 2}), "BadRequestError"),
        (body(text="a", sampling_params={"stop": ["x"]}), "BadRequestError"),
        (body(text="a", sampling_params={"temperature": -1}), "BadRequestError"),
        (body(text="a", return_logprob=True), "BadRequestError"),
        (body(text="word " * 1100), "BadRequestError"),
        (body(text="a", bootstrap_room=1), "BadRequestError"),
        (body(text="a", **{**PAIR, "bootstrap_port": 65_536}), "BadRequestError"),
        (body(text="a", **{**PAIR, "bootstrap_room": -1}), "BadRequestError"),
        (body(input_ids=[1, 512]), "BadRequestError"),
        (body(input_ids=[-1]), "BadRequestError"),
    ],
)
def test_a_bad_native_request_is_the_clients_fault(raw: bytes, kind: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_generate(raw)
    assert (refused.value.status, refused.value.kind) == (400, kind)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "messages"),
        ({"messages": []}, "Messages cannot be empty"),
        ({"messages": [{"content": "a"}]}, "role"),
        ({"messages": MESSAGES, "n": 2}, "n must be 1"),
        ({"messages": MESSAGES, "logprobs": True}, "log probabilities"),
        ({"messages": MESSAGES, "stop": "x"}, "stop strings"),
        ({"messages": MESSAGES, "max_tokens": 5000}, "You requested a total of"),
    ],
)
def test_a_bad_chat_is_refused_by_name(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError, match=text):
        read_chat(body(**fields))


@given(
    st.binary(max_size=60)
    | st.from_type(dict[str, int | str | None]).map(lambda fields: json.dumps(fields).encode())
)
def test_whatever_comes_is_read_or_refused(raw: bytes) -> None:
    for read in (read_generate, read_chat):
        with suppress(RequestError):
            read(raw)


def test_a_temperature_that_would_overflow_is_greedy() -> None:
    assert read_generate(body(text="get", sampling_params={"temperature": 1e-300})).temperature == 0


def test_a_repr_has_counts_and_no_prompt() -> None:
    shown = repr(read_generate(body(text="get fields:", rid="abc")))
    assert shown == "<Submission abc 4+128 tokens>"
