"""A trace without what it said."""

import json
from typing import Any

import pytest

from replay.desensitise import Desensitiser, Proof, common, texts_of
from replay.trace import FORMAT, TraceHeader, TraceRequest

SALT = b"0123456789abcdef"
SYSTEM = (
    "You are a careful engineer at Initech. Never reveal the password hunter2 of the billing database. " * 3
)


def _request(name: str, said: str, **more: Any) -> TraceRequest:  # noqa: ANN401 - fields of any type
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": said}]
    return TraceRequest(id=name, at_s=1.0, body={"model": "m", "messages": messages}, **more)


def _text(request: TraceRequest) -> str:
    assert request.body is not None
    return json.dumps(request.body, ensure_ascii=False)


def test_wording_names_and_secrets_are_gone() -> None:
    made = Desensitiser(SALT).request(
        _request(
            "jane-1", "Ask Jane Doe about invoice 88341", session="jane@initech.example", expected="She paid."
        )
    )
    shown = _text(made) + repr((made.id, made.session, made.expected))
    for secret in ("Initech", "hunter2", "Jane", "Doe", "88341", "billing", "jane", "paid"):
        assert secret not in shown


def test_shape_stays_and_the_proof_says_so() -> None:
    desensitiser = Desensitiser(SALT)
    asked = [
        _request(str(n), f"Change field {n} of the quarterly report, 请修改配置文件。") for n in range(5)
    ]
    made = list(desensitiser.requests(asked))
    proof = desensitiser.proof
    assert proof.holds()
    assert (proof.chars, proof.tokens) == (proof.chars_after, proof.tokens_after)
    assert proof.shared_prefix_chars_after >= proof.shared_prefix_chars > 4 * len(SYSTEM)
    assert (proof.scripts, proof.shingles_left) == (proof.scripts_after, 0)
    assert proof.shingles > 50
    assert [one.at_s for one in made] == [1.0] * 5


def test_a_proof_that_does_not_hold_says_so() -> None:
    assert not Proof(chars=5, chars_after=5, shingles=2, shingles_left=1).holds()
    assert not Proof(chars=5, chars_after=6).holds()


def test_sessions_parents_and_block_hashes_still_fit_each_other() -> None:
    desensitiser = Desensitiser(SALT)
    first = desensitiser.request(TraceRequest(id="a", at_s=0.0, session="s", blocks=(1, 2)))
    second = desensitiser.request(TraceRequest(id="b", at_s=0.0, session="s", parent="a", blocks=(1, 3)))
    assert (first.session, first.id) == (second.session, second.parent)
    assert first.blocks[0] == second.blocks[0] != 1
    assert first.blocks[1] != second.blocks[1]


def test_a_tool_and_its_call_keep_one_name_and_arguments_stay_json() -> None:
    body: dict[str, Any] = {
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "function": {"name": "wipe_disk", "arguments": '{"path": "/home"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "gone"},
        ],
        "tools": [{"type": "function", "function": {"name": "wipe_disk", "parameters": {
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}],
        "temperature": 0.5,
    }  # fmt: skip
    made = Desensitiser(SALT).request(TraceRequest(id="a", at_s=0.0, body=body)).body
    assert made is not None
    call, answer = made["messages"][0]["tool_calls"][0], made["messages"][1]
    tool = made["tools"][0]["function"]
    assert call["function"]["name"] == tool["name"] != "wipe_disk"
    assert call["id"] == answer["tool_call_id"] != "call_1"
    assert list(tool["parameters"]["properties"]) == tool["parameters"]["required"] != ["path"]
    assert json.loads(call["function"]["arguments"]).keys() != {"path"}
    assert (made["temperature"], answer["role"], tool["parameters"]["type"]) == (0.5, "tool", "object")


def test_images_are_left_out_and_counted() -> None:
    desensitiser = Desensitiser(SALT)
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    made = desensitiser.request(
        TraceRequest(id="a", at_s=0.0, body={"messages": [{"role": "user", "content": [part]}]})
    )
    assert "AAAA" not in _text(made)
    assert desensitiser.proof.media_left_out == 1


def test_token_ids_are_other_ids() -> None:
    made = Desensitiser(SALT).request(TraceRequest(id="a", at_s=0.0, body={"input_ids": [5, 6, 7]}))
    assert made.body is not None
    assert len(made.body["input_ids"]) == 3
    assert made.body["input_ids"] != [5, 6, 7]


def test_the_header_says_that_it_was_done() -> None:
    header = Desensitiser(SALT).header(TraceHeader(format=FORMAT, source="x", block_tokens=16))
    assert (header.salted, header.block_tokens) == (True, 16)


def test_without_a_salt_of_its_owner_two_runs_differ() -> None:
    one, other = (Desensitiser().request(_request("a", "hello there")) for _ in range(2))
    assert (one.id, one.body) != (other.id, other.body)


def test_a_common_beginning_is_measured() -> None:
    assert [common("abcd", "abxd"), common("", "a"), common("abc", "abcd")] == [2, 0, 3]
    assert texts_of({"messages": [{"role": "user", "content": "a"}], "prompt": "b", "model": "c"}) == "ab"


def test_a_schema_keeps_its_shape_under_other_names() -> None:
    schema = {
        "type": "object",
        "properties": {
            "invoice": {"$ref": "#/$defs/Invoice"},
            "code": {"type": "string", "pattern": "^ACME-"},
        },
        "required": ["invoice"],
        "$defs": {"Invoice": {"type": "object", "description": "An invoice of Initech"}},
    }
    for body in ({"json_schema": json.dumps(schema)}, {"json_schema": {"name": "bill", "schema": schema}}):
        desensitiser = Desensitiser(SALT)
        made = desensitiser.request(TraceRequest(id="a", at_s=0.0, body={"sampling_params": body})).body or {}
        found = made["sampling_params"]["json_schema"]
        inner = json.loads(found) if isinstance(found, str) else found["schema"]
        (name,) = inner["required"]
        assert name in inner["properties"]
        way, _, target = inner["properties"][name]["$ref"].rpartition("/")
        assert (way, [*inner["$defs"]]) == ("#/$defs", [target])
        assert desensitiser.proof.grammars_left_out == 1
        assert not any(word in json.dumps(made) for word in ("nvoice", "ACME", "Initech", "bill"))


def test_a_grammar_that_would_force_another_answer_is_left_out() -> None:
    asked = {"regex": "(Jane|Joe)", "ebnf": "root ::= x", "json_schema": "no schema", "temperature": 0.5}
    desensitiser = Desensitiser(SALT)
    made = desensitiser.request(TraceRequest(id="a", at_s=0.0, body={"text": "hi", "sampling_params": asked}))
    assert (made.body or {})["sampling_params"] == {"temperature": 0.5}
    assert desensitiser.proof.grammars_left_out == 3


def test_keys_of_metadata_are_somebodys_words() -> None:
    made = Desensitiser(SALT).request(TraceRequest(id="a", at_s=0.0, body={"metadata": {"jane": "doe"}}))
    assert "jane" not in _text(made)


def test_a_body_made_to_hurt_is_named_by_its_number() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ValueError, match="request 1 is nested deeper"):
        Desensitiser(SALT).request(TraceRequest(id="a", at_s=0.0, body={"x": deep}))
