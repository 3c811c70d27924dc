"""Every chunk of a choice becomes one delta, whatever the engine and however the events are grouped."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.dialects.chat_reader import ChatReader
from service.core.events import UNKNOWN, Cached, Delta
from service.core.sse import EventSplitter, payload

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"
CHATS = sorted(CAPTURES.glob("*chat*.sse"))


def payloads_of(name: str) -> list[bytes]:
    events = EventSplitter().feed((CAPTURES / name).read_bytes())
    return [data for event in events if (data := payload(event)) is not None]


def chunk(delta: dict[str, object], index: int = 0, **more: object) -> bytes:
    finish = more.pop("finish_reason", None)
    matched = more.pop("matched_stop", None)
    choice = {"index": index, "delta": delta, "finish_reason": finish, "matched_stop": matched}
    return json.dumps({"choices": [choice], **more}).encode()


def read(*payloads: bytes, choices: int = 1) -> list[Delta]:
    return ChatReader(choices).read(payloads)


def test_growth_and_totals_of_a_real_stream() -> None:
    deltas = read(*payloads_of("sgl-ngram-chat-stream-usage.sse"))
    assert "".join(delta.text for delta in deltas) == "A b c d a b c d a b c d"
    assert [delta.tokens for delta in deltas] == [UNKNOWN, 1, 2, 6, 10, 13, UNKNOWN, UNKNOWN, 13]
    assert [delta.finish for delta in deltas] == ["", "", "", "", "", "", "stop", "", ""]
    assert [(delta.accepted, delta.steps) for delta in deltas][-2] == (10, 4)
    assert not any(delta.malformed or delta.error or delta.tool or delta.exact for delta in deltas)


@pytest.mark.parametrize("capture", CHATS, ids=lambda path: path.name)
def test_the_text_of_a_capture_is_its_contents_joined(capture: Path) -> None:
    payloads = payloads_of(capture.name)
    chunks = [json.loads(data) for data in payloads[:-1]]
    contents = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
    deltas = read(*payloads)
    assert "".join(delta.text for delta in deltas) == "".join(contents) != ""
    assert [delta.finish for delta in deltas if delta.finish] in [["stop"], ["length"]]
    assert not any(delta.malformed for delta in deltas)


@given(data=st.data())
def test_how_events_are_grouped_changes_nothing(data: st.DataObject) -> None:
    broken = [b'{"choices":[{"index":', b"\xff", b"", b"[DONE]", b"5", b'{"choices":5}', b'{"error":"x"}']
    payloads = data.draw(st.permutations([*payloads_of("sgl-ngram-chat-stream-usage.sse"), *broken]))
    reader, grouped = ChatReader(1), []
    rest = list(payloads)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        grouped += reader.read(rest[:size])
        del rest[:size]
    assert grouped == [delta for one in payloads for delta in read(one)]
    assert sum(delta.malformed for delta in grouped) == 4


@given(
    noise=st.lists(st.binary(max_size=20) | st.sampled_from([b"{", b"}", b",", b"null", b"[]"]), max_size=5)
)
def test_no_payload_raises(noise: list[bytes]) -> None:
    assert all(isinstance(delta, Delta) for delta in read(*noise) + ChatReader(1).whole(b"".join(noise)))


def test_nesting_without_end_is_malformed() -> None:
    deep = b'{"choices":' + b"[" * 100_000
    assert read(deep) == ChatReader(1).whole(deep) == [Delta(malformed=True)]


def test_reasoning_content_and_tool_calls_are_all_text_in_order() -> None:
    calls = [{"function": {"name": "ls", "arguments": '{"a":'}}, {"function": {"arguments": "1}"}}, {}]
    both: dict[str, object] = {"reasoning_content": "hm ", "content": "so ", "tool_calls": calls}
    assert read(chunk(both)) == [Delta(text='hm so ls{"a":1}', tool=True)]
    assert read(chunk({"reasoning": "vllm"})) == [Delta(text="vllm")]
    assert read(chunk({"content": None, "tool_calls": [{"function": {"arguments": {"a": 1}}}]})) == [
        Delta(text='{"a":1}', tool=True)
    ]
    assert read(chunk({"content": "x", "tool_calls": None})) == [Delta(text="x")]
    assert read(chunk({"content": [{"text": "a"}, "b", {}]})) == [Delta(text="ab")]


def test_pieces_of_arguments_go_to_the_call_that_their_index_names() -> None:
    calls = [
        {"index": 0, "function": {"name": "ls", "arguments": "{}"}},
        {"index": 1, "function": {"arguments": '{"a'}},
        {"function": {"arguments": "whose?"}},
    ]
    (delta,) = read(chunk({"tool_calls": calls}))
    assert delta.calls == ((0, "{}"), (1, '{"a'))


def test_what_the_engine_says_it_read_comes_with_the_final_usage() -> None:
    assert read(b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":9}}') == [
        Delta(tokens=9, prompt_tokens=1)
    ]


def test_each_choice_of_an_event_has_its_delta_and_the_sum_of_all_is_nobodys() -> None:
    two = {"choices": [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]}
    final = b'{"choices":[],"usage":{"completion_tokens":9}}'
    assert read(json.dumps(two).encode(), final, choices=2) == [Delta(1, "b"), Delta(0, "a")]
    assert read(final) == [Delta(tokens=9)]
    totals = [
        {"spec_num_correct_drafts": 3, "spec_verify_ct": 2},
        {"spec_num_correct_drafts": 0, "spec_verify_ct": 5},
    ]
    ext = json.dumps({"choices": [], "usage": None, "sglext": {"spec_tokens_details": totals}}).encode()
    assert read(ext, choices=2) == [Delta(0, accepted=3, steps=2), Delta(1, accepted=0, steps=5)]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            b'{"error": {"object": "error", "message": "m", "type": "INTERNAL_SERVER_ERROR"}}',
            "INTERNAL_SERVER_ERROR",
        ),
        (b'{"error":{"message":"Stream error","type":"stream_error"}}', "stream_error"),
        (b'{"object":"error","message":"m","type":"BadRequestError","code":400}', "BadRequestError"),
        (b'{"error":"secret text"}', "error"),
        (b'{"error":{"type":"secret text of a prompt"}}', "error"),
        (b'{"choices":[{"index":0,"delta":{"content":"x"}}],"error":{"type":"t"}}', "t"),
    ],
)
def test_an_in_band_error_is_known_by_its_type_and_never_by_its_message(body: bytes, kind: str) -> None:
    assert read(body) == [Delta(error=kind)]
    assert ChatReader(1).whole(body) == [Delta(error=kind)]


def test_endings_are_reported_as_the_engine_gives_them() -> None:
    assert read(chunk({}, finish_reason="abort"))[0].finish == "abort"
    assert read(chunk({}, finish_reason="stop", matched_stop="NaN happened"))[0].finish == "nan"
    assert read(chunk({}, finish_reason="stop", matched_stop=[1, "x"]))[0].finish == "stop"
    assert read(b'{"choices":[{"index":0,"finish_reason":"length"}]}') == [Delta(finish="length")]


def test_events_that_tell_nothing_are_no_deltas() -> None:
    assert read(b"[DONE]", b"", b'{"choices":[]}', b'{"id":"x"}', b'{"choices":[],"usage":null}') == []
    assert read(chunk({"content": "x"}, usage={"completion_tokens": None})) == [Delta(text="x")]
    assert read() == []


@pytest.mark.parametrize("name", ["sgl-ngram-chat.json", "sgl-plain-chat.json"])
def test_a_whole_body_is_one_delta_a_choice(name: str) -> None:
    body = (CAPTURES / name).read_bytes()
    content = json.loads(body)["choices"][0]["message"]["content"]
    read_tokens = json.loads(body)["usage"]["prompt_tokens"]
    assert ChatReader(1).whole(body) == [Delta(0, content, 40, "length", prompt_tokens=read_tokens)]


def test_a_whole_body_with_tools_choices_and_steps() -> None:
    message = {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    choices = [
        {"index": 0, "message": message, "finish_reason": "tool_calls"},
        {"index": 1, "message": {"content": "x"}},
    ]
    spec = {"spec_tokens_details": {"spec_num_correct_drafts": 3, "spec_verify_ct": 2}}
    body = json.dumps({"choices": choices, "usage": {"completion_tokens": 7}, "sglext": spec}).encode()
    assert ChatReader(2).whole(body) == [
        Delta(0, "f{}", UNKNOWN, "tool_calls", tool=True, calls=((0, "{}"),)),
        Delta(1, "x"),
        Delta(0, accepted=3, steps=2),
    ]
    for nothing in (b"", b"{}", b"[]", b'{"choices":[]}', b"<html>"):
        assert ChatReader(1).whole(nothing) == [Delta(malformed=True)]


def usage(details: object) -> dict[str, object]:
    return {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": details}


@pytest.mark.parametrize(
    ("details", "cached"),
    [(None, Cached(9)), ({"cached_tokens": 4}, Cached(9, 4)), ({"cached_tokens": 0}, Cached(9, 0))],
)
def test_what_the_cache_gave_is_read_from_the_final_usage(details: object, cached: Cached) -> None:
    streamed, whole = ChatReader(1), ChatReader(1)
    streamed.read([chunk({"content": "a"}), json.dumps({"choices": [], "usage": usage(details)}).encode()])
    body = {"choices": [{"index": 0, "message": {"content": "a"}}], "usage": usage(details)}
    whole.whole(json.dumps(body).encode())
    assert streamed.cached == whole.cached == cached


def test_a_stream_that_tells_no_usage_tells_no_cache() -> None:
    reader = ChatReader(1)
    reader.read([chunk({"content": "a"}), b"[DONE]"])
    assert (reader.cached, reader.cached.tier) == (Cached(), "")


def unrolled(deltas: list[Delta]) -> list[tuple[str, int, str, bool]]:
    """What matters of these, event by event; the text of a run comes with its last."""
    told: list[tuple[str, int, str, bool]] = []
    for delta in deltas:
        told += [("", tokens, "", False) for tokens in delta.run[:-1]]
        told.append((delta.text, delta.tokens, delta.finish, delta.malformed))
    return told


PLAIN = st.builds(
    lambda text, tokens: chunk({"content": text}, usage={"completion_tokens": tokens}),
    st.text(max_size=4),
    st.none() | st.integers(0, 9),
)
ODD = st.sampled_from([
    b"{", b"[DONE]", b"5", b'{"error":"x"}', b'{"choices":[]}', chunk({}), chunk({"content": None}),
    chunk({"content": "a"}, index=1), chunk({"content": "a"}, finish_reason="stop"),
    chunk({"reasoning_content": "r", "content": "a"}), chunk({"content": [{"text": "part"}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
])  # fmt: skip


@given(payloads=st.lists(PLAIN | ODD, max_size=12))
def test_a_run_says_of_its_events_what_each_says_alone(payloads: list[bytes]) -> None:
    alone, brief = read(*payloads), ChatReader(1).brief(payloads)
    assert "".join(delta.text for delta in brief) == "".join(delta.text for delta in alone)
    assert [told[1:] for told in unrolled(brief)] == [told[1:] for told in unrolled(alone)]
    assert all(delta.run == () or (delta.text and delta.run[-1] == delta.tokens) for delta in brief)
    assert all(list(delta.run) == sorted(delta.run) for delta in brief)


def test_events_in_a_row_are_one_run_and_what_brings_more_stands_alone() -> None:
    told = [chunk({"content": text}, usage={"completion_tokens": n}) for n, text in enumerate("abc", 1)]
    stop = chunk({"content": "d"}, finish_reason="stop")
    deltas = ChatReader(1).brief([*told, stop])
    assert deltas == [Delta(0, "abc", 3, run=(1, 2, 3)), Delta(0, "d", finish="stop")]


def test_of_several_choices_there_are_no_runs() -> None:
    told = [chunk({"content": "a"}), chunk({"content": "b"}, index=1)]
    assert ChatReader(2).brief(told) == read(*told, choices=2)
