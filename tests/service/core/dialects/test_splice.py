"""Members are put in and cut out, and every other byte stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.dialects import splice
from service.core.sse import payload

KEYS = st.sampled_from(["rid", "usage", "a", 'q"uote', "back\\slash", "ключ", ""]) | st.text(max_size=5)
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8) | st.just('x\\",{"rid":[}],')
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
STYLES = st.sampled_from(
    [{"separators": (",", ":")}, {}, {"indent": 1}, {"ensure_ascii": False, "separators": (" ,", " : ")}]
)


@given(
    body=OBJECTS, members=st.dictionaries(st.sampled_from(["rid", "opt"]), VALUES, max_size=2), style=STYLES
)
def test_put_is_an_update(
    body: dict[str, object], members: dict[str, object], style: dict[str, object]
) -> None:
    text = json.dumps(body, **style).encode()  # type: ignore[arg-type]
    assert json.loads(splice.put(text, members)) == {**body, **members}


def test_put_copies_a_large_body_verbatim() -> None:
    body = b' {\n "messages": [ {"content" : "%b"} ] , "odd":1e2}\n' % (b"\\u00e9x" * 200_000)
    assert splice.put(body, {"rid": "r1"}) == b'{"rid":"r1",' + body[body.index(b'"messages') :]
    assert splice.put(body, {}) is body


def test_put_replaces_what_is_named_and_keeps_the_other_values_as_written() -> None:
    assert (
        splice.put(b'{"rid":null,"t":1.50,"x":"\\u0041"}', {"rid": "r"})
        == b'{"rid":"r","t":1.50,"x":"\\u0041"}'
    )


@pytest.mark.parametrize("body", [b"", b"[]", b'"rid"', b"nonsense"])
def test_put_leaves_what_is_no_object(body: bytes) -> None:
    assert splice.put(body, {"rid": "r"}) == body


@given(body=OBJECTS, style=STYLES, data=st.data())
def test_a_member_cut_out_leaves_the_others(
    body: dict[str, object], style: dict[str, object], data: st.DataObject
) -> None:
    text = json.dumps(body, **style).encode()  # type: ignore[arg-type]
    members = splice.members_of(text)
    assert {json.loads(m.key): json.loads(text[m.value : m.end]) for m in members} == body
    if not members:
        return
    doomed = data.draw(st.sampled_from(members))
    start, end = splice.without(members, doomed)
    assert json.loads(text[:start] + text[end:]) == {
        k: v for k, v in body.items() if k != json.loads(doomed.key)
    }


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    "lines",
    [
        [b'data: {"a":1}'],
        [b'data:{"a":', b"data: 1}"],
        [b": note", b"event: x", b"id", b'data: {"a"', b"data", b"data::1}"],
        [b'\xef\xbb\xbfdata: {"a":1}', b"database: {"],
    ],
)
def test_unframed_keeps_the_data_where_it_was(lines: list[bytes], line_end: bytes) -> None:
    event = line_end.join(lines) + line_end * 2
    blanked = splice.unframed(event)
    assert len(blanked) == len(event)
    assert json.loads(blanked) == json.loads(payload(event) or b"") == {"a": 1}


@pytest.mark.parametrize("text", [b"", b"[1]", b'"a"', b'{"a":', b'{"a":[1,'])
def test_what_is_no_whole_object_has_no_members(text: bytes) -> None:
    assert splice.members_of(text) == []
