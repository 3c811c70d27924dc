"""The client gets the bytes it would have got, had we not asked for anything."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.core.dialects.chat_cut import _cut_members, cut
from service.core.dialects.protocol import Outgoing
from service.core.sse import EventSplitter, payload

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"
STREAMS = sorted(CAPTURES.glob("*.sse"))
USAGE = CAPTURES / "sgl-ngram-chat-stream-usage.sse"
ALL = Outgoing(b"", asked_growth=True, asked_usage=True, asked_spec=True)
NOTHING = Outgoing(b"")
ASKED = st.builds(
    Outgoing, st.just(b""), asked_growth=st.booleans(), asked_usage=st.booleans(), asked_spec=st.booleans()
)
NASTY = ',"usage":{"completion_tokens":1}}\n\n'
TEXTS = st.text(max_size=20) | st.sampled_from(
    [
        NASTY,
        f"\\{NASTY}",
        '"' + NASTY,
        '"choices":[],"usage":{',
        '{"role":null,"sglext":{',
        '}],"usage":{}}',
        "\\",
    ]
)
COUNTS = {"prompt_tokens": 44, "completion_tokens": 6, "prompt_tokens_details": None}
CACHED = {**COUNTS, "prompt_tokens_details": {"cached_tokens": 5}, "reasoning_tokens": 0}
SPEC = {"spec_num_correct_drafts": 10, "spec_correct_drafts_histogram": [1, 0, 2]}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def event(value: object) -> bytes:
    return b"data: " + compact(value) + b"\n\n"


def chunk(text: str, **more: object) -> dict[str, object]:
    choice = {"index": 0, "delta": {"reasoning_content": None, "content": text}, "finish_reason": None}
    return {"id": "r1", "model": "m", "choices": [choice], **more}


def tool_chunk(**more: object) -> dict[str, object]:
    """As SGLang's other serialiser writes it: unset members are spelled out."""
    call = {"id": None, "index": 0, "type": "function", "function": {"name": None, "arguments": '{"usage":{'}}
    delta = {"role": None, "content": None, "reasoning_content": None, "tool_calls": [call]}
    return {"id": "r1", "model": "m", "choices": [{"index": 0, "delta": delta}], "usage": None, **more}


def reference(data: bytes, asked: Outgoing) -> bytes:
    """One event's data less what only we asked for, by way of JSON; b"" for an event that was ours alone."""
    if data == b"[DONE]":
        return data
    value: dict[str, Any] = json.loads(data)
    assert compact(value) == data, "the reference must write as the engine does"
    bare = not value["choices"]
    if isinstance(value.get("usage"), dict) and (asked.asked_usage if bare else asked.asked_growth):
        del value["usage"]
    if asked.asked_spec and value.get("sglext"):
        del value["sglext"]["spec_tokens_details"]
        if not value["sglext"]:
            del value["sglext"]
    return (
        b""
        if compact(value) != data and bare and not (value.get("usage") or value.get("sglext"))
        else compact(value)
    )


def guarded(data: bytes, asked: Outgoing, at: int) -> bytes:
    splitter = EventSplitter()
    events = [*splitter.feed(data[:at]), *splitter.feed(data[at:])]
    return b"".join(cut(event, asked) for event in events) + splitter.rest()


@pytest.mark.parametrize(
    "asked", [ALL, NOTHING, Outgoing(b"", asked_growth=True), Outgoing(b"", asked_usage=True)]
)
@pytest.mark.parametrize("capture", STREAMS, ids=lambda path: path.name)
def test_a_capture_cut_at_any_place_is_what_the_client_alone_would_have_got(
    capture: Path, asked: Outgoing
) -> None:
    data = capture.read_bytes()[:6000]
    data = data[: data.rindex(b"\n\n") + 2]
    if "generate" in capture.name:  # the other dialect: nothing of ours in it
        wanted = data
    else:
        bodies = [reference(part.removeprefix(b"data: "), asked) for part in data.split(b"\n\n")[:-1]]
        wanted = b"".join(b"data: " + body + b"\n\n" for body in bodies if body)
    for at in range(0, len(data), 7 if capture != USAGE else 1):
        assert guarded(data, asked, at) == wanted


@given(asked=ASKED)
def test_whatever_the_client_asked_for_itself_stays(asked: Outgoing) -> None:
    data = USAGE.read_bytes()
    bodies = [reference(part.removeprefix(b"data: "), asked) for part in data.split(b"\n\n")[:-1]]
    assert guarded(data, asked, 0) == b"".join(b"data: " + body + b"\n\n" for body in bodies if body)


@given(text=TEXTS, usage=st.sampled_from([None, COUNTS, CACHED, {}]), asked=ASKED)
@example(text=NASTY, usage=None, asked=ALL)
def test_text_that_looks_like_usage_is_never_cut(
    text: str, usage: dict[str, object] | None, asked: Outgoing
) -> None:
    plain = chunk(text)
    sent = event(plain if usage is None else {**plain, "usage": usage})
    cut_event = cut(sent, asked)
    assert cut_event == (event(plain) if asked.asked_growth else sent)
    assert cut_event == _cut_members(sent, asked)


@given(text=TEXTS, line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]), asked=ASKED, data=st.data())
def test_any_framing_is_kept(text: str, line_end: bytes, asked: Outgoing, data: st.DataObject) -> None:
    """The same member is cut whatever line ends, comments, fields and white space surround it."""
    value = {"usage": COUNTS, **chunk(text)} if data.draw(st.booleans()) else chunk(text, usage=COUNTS, x=1)
    lines = json.dumps(value, indent=data.draw(st.sampled_from([None, 1]))).encode().split(b"\n")
    sent = (
        line_end.join([b": note", b"event: x", *(b"data:" + line for line in lines), b"id: 1"]) + line_end * 2
    )
    got = cut(sent, asked)
    assert got.startswith(b": note" + line_end + b"event: x" + line_end)
    assert got.endswith(line_end + b"id: 1" + line_end * 2)
    left = json.loads(payload(got) or b"")
    assert left == {k: v for k, v in value.items() if k != "usage" or not asked.asked_growth}
    assert asked.asked_growth or got == sent


@pytest.mark.parametrize("after", [{"x": 1}, {"x": {"y": 1}}, {"x": [{"y": {"z": {}}}]}, {"x": "}{"}])
@pytest.mark.parametrize("usage", [COUNTS, CACHED, {"deep": {"er": {}}}])
def test_members_after_usage_stay(usage: dict[str, object], after: dict[str, object]) -> None:
    assert cut(event(chunk("a", usage=usage, **after)), ALL) == event(chunk("a", **after))


@pytest.mark.parametrize("usage", [COUNTS, CACHED])
def test_a_tool_call_gets_back_the_null_its_serialiser_writes(usage: dict[str, object]) -> None:
    assert cut(event(tool_chunk(usage=usage)), ALL) == event(tool_chunk())
    assert cut(event(tool_chunk()), ALL) == event(tool_chunk())
    assert cut(event(tool_chunk(usage=usage, more=1)), ALL) == event(tool_chunk(more=1))


def test_what_the_client_asked_for_beside_the_steps_stays_in_sglext() -> None:
    frame: dict[str, object] = {"id": "r1", "choices": [], "usage": None}
    both = {
        **frame,
        "sglext": {"cached_tokens_details": {"device": 1}, "spec_tokens_details": SPEC, "output_ids": [1]},
    }
    one = {**frame, "sglext": {"cached_tokens_details": {"device": 1}, "output_ids": [1]}}
    assert cut(event(both), ALL) == event(one)
    assert cut(event(one), ALL) == event(one)
    assert cut(event({**frame, "sglext": {"spec_tokens_details": SPEC}}), ALL) == b""


def test_an_event_that_tells_more_than_we_asked_for_is_not_dropped() -> None:
    frame: dict[str, object] = {"id": "r1", "choices": []}
    ours = {"usage": COUNTS, "sglext": {"spec_tokens_details": SPEC}}
    assert cut(event({**frame, **ours, "system_fingerprint": "vllm"}), ALL) == b""
    assert cut(event({**ours, **frame, "warning": "x"}), ALL) == event({**frame, "warning": "x"})
    only_spec = Outgoing(b"", asked_spec=True)
    assert cut(event({**frame, **ours}), only_spec) == event({**frame, "usage": COUNTS})


@pytest.mark.parametrize(
    "odd",
    [
        b": ping\n\n",
        b"data: [DONE]\n\n",
        b'data: {"choices":[],"usage":{\n\n',
        b'data: {"choices":[],"usage":{}}',
        b'data: "sglext"\n\n',
        b'data: ["usage"]\n\n',
        b'data: {"error":{"message":"\\"usage\\""}}\n\n',
        b'data: {"choices":[{"delta":{}}],"usage":null}\n\n',
        b'data: \xff"usage"\n\n',
        b"data: " + b"[" * 100_000 + b'"usage"\n\n',
    ],
    ids=range(10),
)
def test_what_is_not_ours_goes_out_as_it_came(odd: bytes) -> None:
    assert cut(odd, ALL) == odd


USAGE_EVENT = {"id": "r1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": []}


@given(
    usage=st.sampled_from([COUNTS, CACHED]), asked=ASKED, more=st.sampled_from([{}, {"x": 1}, {"y": None}])
)
def test_the_final_usage_event_is_ours_to_drop_and_no_other_is(
    usage: dict[str, object], asked: Outgoing, more: dict[str, object]
) -> None:
    whole = event({**USAGE_EVENT, "usage": usage, **more})
    kept = not asked.asked_usage or "x" in more
    left = event({**USAGE_EVENT, **more}) if asked.asked_usage else whole
    assert cut(whole, asked) == (left if kept else b"")


@pytest.mark.parametrize("broken", [b'"a":01x', b'"a":{', b"", b'"a":1,', b'"a":"b"'])
def test_a_usage_event_that_is_no_json_goes_out_as_it_came(broken: bytes) -> None:
    whole = event({**USAGE_EVENT, "usage": {}}).replace(b'"usage":{}', b'"usage":{%b}' % broken)
    readable = broken in {b"", b'"a":"b"'}
    assert cut(whole, ALL) == (b"" if readable else whole)
