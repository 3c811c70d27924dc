"""A chat request is understood without being changed, but for what we ask for and say so."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.dialects.openai_chat import OpenAIChat
from service.core.dialects.protocol import BadRequest, Outgoing
from service.core.events import UNKNOWN, RequestFacts

CHAT = OpenAIChat()
RID = "r" * 32


def body(**members: object) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **members}).encode()


def sent(data: bytes, rid: str = RID, *, ask_growth: bool = True) -> tuple[dict[str, Any], Outgoing]:
    outgoing = CHAT.outgoing(data, CHAT.request(data), rid, ask_growth=ask_growth)
    return json.loads(outgoing.body), outgoing


def test_facts_of_a_full_request() -> None:
    facts = CHAT.request(
        body(
            stream=True,
            n=3,
            max_tokens=5,
            max_completion_tokens=7,
            temperature=0,
            rid="abc",
            stream_options={"include_usage": True, "continuous_usage_stats": True},
            return_spec_tokens_details=True,
            response_format={"type": "json_schema", "json_schema": {}},
            tools=[{"type": "function"}],
            unknown={"x": 1},
        )
    )
    assert facts == RequestFacts(
        dialect="openai_chat",
        model="m",
        stream=True,
        choices=3,
        max_tokens=7,
        temperature=0.0,
        rid="abc",
        prompt='hi\n[{"type": "function"}]',
        wants_usage=True,
        wants_growth=True,
        wants_spec=True,
        wants_json=True,
        tools=True,
        tools_chars=23,
    )


def told(messages: list[Any], **members: object) -> tuple[str, str, str]:
    """Preamble, body and tools: as the marks of the facts cut the prompt."""
    facts = CHAT.request(body(messages=messages, **members))
    head, end = facts.preamble_chars, len(facts.prompt) - facts.tools_chars
    return facts.prompt[:head], facts.prompt[head:end], facts.prompt[end:]


def test_a_prompt_is_marked_where_its_parts_meet() -> None:
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "developer", "content": [{"type": "text", "text": "be short"}]},
        {"role": "user", "content": "hello"},
        {"role": "system", "content": "it is late"},
        {"role": "user", "content": "go on\n"},
    ]
    assert told(messages) == ("be kind\nbe short\n", "hello\nit is late\ngo on", "")
    tools = [{"type": "function"}]
    assert told(messages, tools=tools)[2] == '\n[{"type": "function"}]'


def test_marks_of_odd_prompts_stay_inside_it() -> None:
    for messages in (
        [],
        [{"role": "user"}],
        [{"content": "\n\n"}],
        [{"role": "system", "content": None}] * 2,
    ):
        assert "".join(told(messages)) in CHAT.request(body(messages=messages)).prompt + "\n"


def test_an_image_seals_what_the_model_reads() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    message = {"role": "user", "content": [{"type": "text", "text": "what is this?"}, picture]}
    assert CHAT.request(body(messages=[message])).sealed
    assert not CHAT.request(body()).sealed


def test_facts_of_a_bare_request() -> None:
    assert CHAT.request(b"{}") == RequestFacts(dialect="openai_chat", max_tokens=UNKNOWN)
    nulls = dict.fromkeys(
        ["model", "messages", "stream", "n", "max_tokens", "temperature", "rid", "stream_options", "tools"]
    )
    assert CHAT.request(json.dumps(nulls).encode()) == RequestFacts(dialect="openai_chat")


def test_the_prompt_is_all_text_the_model_reads() -> None:
    call = {"id": "1", "function": {"name": "ls", "arguments": '{"p":"/"}'}}
    messages = [
        {"role": "system", "content": "be kind"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "a.txt"},
    ]
    assert CHAT.request(body(messages=messages)).prompt == 'be kind\nlook\nhmls{"p":"/"}\na.txt'


def test_numbers_and_flags_written_as_text_are_read_as_the_engine_reads_them() -> None:
    facts = CHAT.request(body(stream="true", temperature="0.5", n="2", max_tokens="9", rid=["a", "b"]))
    assert (facts.stream, facts.temperature, facts.choices, facts.max_tokens, facts.rid) == (
        True,
        0.5,
        2,
        9,
        "a",
    )


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"", "one JSON object"),
        (b"secret", "one JSON object"),
        (b'{"model":"secret', "one JSON object"),
        (b'{"model":"\xff"}', "one JSON object"),
        (b'{"unknown":' + b"[" * 100_000, "one JSON object"),
        (b'["secret"]', "object"),
        (b'{"messages":"secret"}', "$.messages"),
        (b'{"messages":[{"content":{"secret":1}}]}', "$.messages[0].content"),
        (b'{"temperature":{"secret":1}}', "$.temperature"),
        (b'{"n":"secret"}', "$.n"),
        (b'{"stream_options":["secret"]}', "$.stream_options"),
    ],
    ids=range(11),
)
def test_a_refusal_says_what_to_mend_and_quotes_nothing(data: bytes, hint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        CHAT.request(data)
    assert hint in str(refused.value)
    assert "secret" not in str(refused.value)


KEYS = st.sampled_from(
    [*RequestFacts.__struct_fields__, "messages", "content", "stream_options", "n", "tool_calls", "text"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
def test_any_json_is_read_or_refused_as_bad(value: object) -> None:
    data = json.dumps(value).encode()
    try:
        facts = CHAT.request(data)
    except BadRequest:
        return
    assert isinstance(json.loads(CHAT.outgoing(data, facts, RID, ask_growth=True).body), dict)


def test_growth_usage_and_steps_are_asked_for_and_told() -> None:
    value, outgoing = sent(body(stream=True))
    assert value == {
        "rid": RID,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
        **json.loads(body(stream=True)),
    }
    assert (outgoing.asked_growth, outgoing.asked_usage, outgoing.asked_spec) == (True, True, True)


@pytest.mark.parametrize("stream", [True, False])
def test_only_the_rid_goes_in_where_growth_is_not_asked_for(stream: bool) -> None:
    value, outgoing = sent(body(stream=stream), ask_growth=not stream)
    assert value == {"rid": RID, **json.loads(body(stream=stream))}
    assert outgoing == Outgoing(outgoing.body)


@pytest.mark.parametrize("usage", [True, False, None])
@pytest.mark.parametrize("growth", [True, False])
@pytest.mark.parametrize("spec", [True, False])
def test_what_the_client_asked_for_is_never_marked_as_ours(
    usage: bool | None, growth: bool, spec: bool
) -> None:
    options = {"include_usage": usage, "continuous_usage_stats": growth, "other": {"kept": [1]}}
    value, outgoing = sent(body(stream=True, stream_options=options, return_spec_tokens_details=spec))
    assert value["stream_options"] == {**options, "include_usage": True, "continuous_usage_stats": True}
    assert value["return_spec_tokens_details"] is True
    assert (outgoing.asked_usage, outgoing.asked_growth, outgoing.asked_spec) == (
        not usage,
        not growth,
        not spec,
    )


def test_a_large_prompt_is_never_encoded_anew() -> None:
    odd = b'{ "messages":[{"content":"' + b"\\u0041\\/x " * 100_000 + b'"}], "stream":true, "t":1.0e0 }'
    outgoing = CHAT.outgoing(odd, CHAT.request(odd), RID, ask_growth=True)
    assert outgoing.body.endswith(odd.lstrip(b"{ "))


def test_the_clients_rid_is_kept_and_another_attempts_takes_its_place() -> None:
    data = body(stream=True, rid="mine")
    assert CHAT.outgoing(data, CHAT.request(data), "mine", ask_growth=False).body is data
    assert sent(data, "again")[0]["rid"] == "again"
    assert sent(body(rid=None), RID)[0]["rid"] == RID


def test_nothing_we_ask_for_changes_what_is_generated() -> None:
    value, _ = sent(body(stream=True, temperature=0.3, n=2))
    ours = set(value) - set(json.loads(body(stream=True, temperature=0.3, n=2)))
    assert ours == {"rid", "stream_options", "return_spec_tokens_details"}


def test_errors_have_the_shape_that_openai_clients_raise_on() -> None:
    refusal = json.loads(CHAT.refusal(503, "overloaded", 'say "when"'))
    assert refusal == {"error": {"message": 'say "when"', "type": "overloaded", "param": None, "code": 503}}
    event = CHAT.in_band("upstream_corruption", "two\nlines")
    assert event.count(b"\n") == 2
    assert json.loads(event.removeprefix(b"data: ")) == {
        "error": {
            "message": "two\nlines",
            "type": "upstream_corruption",
            "param": None,
            "code": "stream_integrity",
        }
    }
