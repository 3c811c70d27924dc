"""A generate request is understood, and changed by nothing but a rid."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.dialects.protocol import BadRequest, Outgoing
from service.core.dialects.sglang_generate import SGLangGenerate
from service.core.events import UNKNOWN, RequestFacts

GENERATE = SGLangGenerate()
RID = "r" * 32


def test_facts_of_a_full_request() -> None:
    sampling = {"n": 2, "max_new_tokens": 9, "temperature": 0, "json_schema": "{}", "ignore_eos": False}
    value = {"text": "hi", "stream": True, "rid": "mine", "model": "m", "sampling_params": sampling, "x": [1]}
    assert GENERATE.request(json.dumps(value).encode()) == RequestFacts(
        dialect="sglang_generate",
        model="m",
        stream=True,
        choices=2,
        max_tokens=9,
        temperature=0.0,
        rid="mine",
        prompt="hi",
        wants_json=True,
        shows_ids=True,
    )


def test_ids_without_text_read_as_an_empty_prompt() -> None:
    facts = GENERATE.request(b'{"input_ids":[[1,2],[3]],"text":null,"sampling_params":null}')
    assert facts == RequestFacts(dialect="sglang_generate", max_tokens=UNKNOWN, sealed=True, shows_ids=True)


def test_an_image_seals_what_the_model_reads() -> None:
    assert GENERATE.request(b'{"text":"what is this?","image_data":"data:image/png;base64,AA=="}').sealed
    assert not GENERATE.request(b'{"text":"what is this?"}').sealed


def test_a_batch_counts_its_choices_over_all_prompts() -> None:
    facts = GENERATE.request(
        b'{"text":["a","b","c"],"rid":["x","y","z"],"sampling_params":[{"n":2},{"n":2},{"n":2}]}'
    )
    assert (facts.choices, facts.prompt, facts.rid) == (6, "a\nb\nc", "x")
    assert GENERATE.request(b'{"text":[],"sampling_params":[]}').choices == 1


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"secret", "one JSON object"),
        (b'{"text":{"secret":1}}', "$.text"),
        (b'{"sampling_params":{"n":"secret"}}', "$.sampling_params.n"),
        (b'{"sampling_params":"secret"}', "$.sampling_params"),
    ],
)
def test_a_refusal_says_what_to_mend_and_quotes_nothing(body: bytes, hint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        GENERATE.request(body)
    assert hint in str(refused.value)
    assert "secret" not in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "rid", "sampling_params", "n", "stream", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(value=JSON)
def test_any_json_is_read_or_refused_as_bad(value: object) -> None:
    data = json.dumps(value).encode()
    try:
        facts = GENERATE.request(data)
    except BadRequest:
        return
    body = GENERATE.outgoing(data, facts, RID, ask_growth=True).body
    assert isinstance(value, dict)
    assert json.loads(body) == {**value, "rid": RID}


def test_only_the_rid_is_put_in_and_nothing_asked_for() -> None:
    body = b'{"text":"' + b"\\u0041x" * 200_000 + b'","stream":true}'
    outgoing = GENERATE.outgoing(body, GENERATE.request(body), RID, ask_growth=True)
    assert outgoing == Outgoing(b'{"rid":"' + RID.encode() + b'",' + body[1:])


def test_the_clients_rid_is_kept_and_another_attempts_takes_its_place() -> None:
    body = b'{"text":"a","rid":"mine"}'
    facts = GENERATE.request(body)
    assert GENERATE.outgoing(body, facts, "mine", ask_growth=True).body is body
    assert json.loads(GENERATE.outgoing(body, facts, "again", ask_growth=True).body) == {
        "text": "a",
        "rid": "again",
    }


def test_errors_have_the_engines_own_shapes() -> None:
    refusal = json.loads(GENERATE.refusal(503, "overloaded", "wait"))
    assert refusal == {"object": "error", "message": "wait", "type": "overloaded", "param": None, "code": 503}
    event = GENERATE.in_band("upstream_corruption", "two\nlines")
    assert event.count(b"\n") == 2
    assert json.loads(event.removeprefix(b"data: ")) == {
        "error": {"message": "two\nlines", "type": "upstream_corruption", "code": 502, "retryable": True}
    }
