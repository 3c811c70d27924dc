"""The deltas of a cumulative stream are those of its differences, at the cost of the differences."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.dialects.generate_reader import GenerateReader
from service.core.events import UNKNOWN, Cached, Delta
from service.core.sse import EventSplitter, payload

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"
STREAMS = ["sgl-ngram-generate-stream.sse", "sgl-ngram-generate-stream-plugin.sse"]
# Pieces that a seam may fall behind: escapes, quotes, what looks like the end of the text, characters of
# every width, and the same again and again.
PIECES = st.lists(
    st.sampled_from(
        [" the", "\n", '"', "\\", "\\n", '","output_ids":[', '"meta_info":{', "ü", "日", "🙂", "\x01", ""]
    )
    | st.text(max_size=4),
    max_size=12,
)


def payloads_of(name: str) -> list[bytes]:
    events = EventSplitter().feed((CAPTURES / name).read_bytes())
    return [data for event in events if (data := payload(event)) is not None]


def event(text: str | None, ids: int, tokens: int, *, index: int | None = None, **meta: object) -> bytes:
    """As SGLang's orjson writes it: compact, characters beyond ASCII as they are."""
    value: dict[str, Any] = {"text": text, "output_ids": list(range(ids))}
    value["meta_info"] = {"id": "r", "finish_reason": None, "completion_tokens": tokens, **meta}
    if index is not None:
        value["index"] = index
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def cumulative(pieces: list[str]) -> list[bytes]:
    return [event("".join(pieces[: n + 1]), n + 1, n + 1) for n in range(len(pieces))]


def incremental(pieces: list[str]) -> list[bytes]:
    return [event(piece, 1, n + 1) for n, piece in enumerate(pieces)]


def read_in_groups(payloads: list[bytes], data: st.DataObject) -> list[Delta]:
    reader, deltas = GenerateReader(), []
    while payloads:
        size = data.draw(st.integers(1, len(payloads)))
        deltas += reader.read(payloads[:size])
        payloads = payloads[size:]
    return deltas


def texts(deltas: list[Delta]) -> list[str]:
    assert not any(delta.malformed or delta.error for delta in deltas)
    return [delta.text for delta in deltas]


@pytest.mark.parametrize("name", STREAMS)
def test_a_real_stream_reads_as_its_differences(name: str) -> None:
    payloads = payloads_of(name)
    whole = [json.loads(data) for data in payloads[:-1]]
    deltas = GenerateReader().read(payloads)
    reached = ""
    for delta, value in zip(deltas, whole, strict=True):
        reached += delta.text
        assert reached == value["text"]
        assert delta.tokens == value["meta_info"]["completion_tokens"]
    meta = whole[-1]["meta_info"]
    assert (deltas[-1].accepted, deltas[-1].steps) == (
        meta["spec_num_correct_drafts"],
        meta["spec_verify_ct"],
    )
    assert [delta.finish for delta in deltas[-2:]] == ["", "length"]
    assert {(delta.accepted, delta.steps) for delta in deltas[:-1]} == {(UNKNOWN, UNKNOWN)}


@given(pieces=PIECES, data=st.data())
def test_any_cumulative_text_is_taken_apart_again(pieces: list[str], data: st.DataObject) -> None:
    assert texts(read_in_groups(cumulative(pieces), data)) == pieces


@given(pieces=PIECES, data=st.data())
def test_an_incremental_server_is_found_out(pieces: list[str], data: st.DataObject) -> None:
    assert texts(read_in_groups(incremental(pieces), data)) == pieces


@given(pieces=PIECES)
def test_escaped_characters_beyond_ascii_are_read_alike(pieces: list[str]) -> None:
    escaped = [json.dumps(json.loads(data), separators=(",", ":")).encode() for data in cumulative(pieces)]
    assert texts(GenerateReader().read(escaped)) == pieces


@given(pieces=PIECES)
def test_an_event_written_in_another_style_is_read_whole(pieces: list[str]) -> None:
    spaced = [json.dumps(dict(reversed(json.loads(data).items()))).encode() for data in cumulative(pieces)]
    mixed = [
        one if n % 3 else other for n, (one, other) in enumerate(zip(cumulative(pieces), spaced, strict=True))
    ]
    assert texts(GenerateReader().read(spaced)) == texts(GenerateReader().read(mixed)) == pieces


@pytest.mark.parametrize("before", [1, 2, 5])
def test_a_surrogate_pair_cut_in_two_costs_one_malformed_event_and_no_character(before: int) -> None:
    raw = [b"a" * (n + 1) for n in range(before)]
    raw += [raw[-1] + more for more in (b"b\\ud83d", b"b\\ud83d\\ude42", b"b\\ud83d\\ude42c")]
    payloads = [
        b'{"text":"%b","output_ids":%b,"meta_info":{"completion_tokens":%d}}'
        % (text, json.dumps([0] * (n + 1)).encode(), n + 1)
        for n, text in enumerate(raw)
    ]
    deltas = GenerateReader().read(payloads)
    assert [delta.malformed for delta in deltas] == [False] * before + [True, False, False]
    assert [delta.text for delta in deltas] == ["a"] * before + ["", "b🙂", "c"]


def test_an_event_that_leaves_something_away_is_read_all_the_same() -> None:
    payloads = cumulative(["a", "b", "c"])
    payloads.append(b'{"text":"abcd","meta_info":{}}')
    payloads += [event("abcde", 5, 5), event("abcdef", 6, 6)]
    assert texts(GenerateReader().read(payloads)) == ["a", "b", "c", "d", "e", "f"]


def test_a_text_rewritten_at_its_end_is_read_on_from_its_length() -> None:
    payloads = [event("ab", 2, 2), event("abc\ufffd", 4, 4), event("abcé!", 6, 6), event("abcé!?", 7, 7)]
    assert texts(GenerateReader().read(payloads)) == ["ab", "c\ufffd", "!", "?"]


def test_a_stream_without_ids_or_without_text_is_read() -> None:
    bare = [b'{"text":"%b","meta_info":{"completion_tokens":%d}}' % (b"ab" * n, n) for n in (1, 2, 3)]
    assert texts(GenerateReader().read(bare)) == ["ab", "ab", "ab"]
    ids_only = [event(None, n, n) for n in (1, 3, 4)]
    assert [(d.text, d.tokens) for d in GenerateReader().read(ids_only)] == [("", 1), ("", 3), ("", 4)]


def test_each_choice_has_its_own_progress() -> None:
    payloads = [
        event(text, n, n, index=index) for n in (1, 2, 3) for index, text in ((1, "ab" * n), (0, "c" * n))
    ]
    deltas = GenerateReader().read(payloads)
    assert [(delta.choice, delta.text, delta.tokens) for delta in deltas] == [
        (1, "ab", 1),
        (0, "c", 1),
        (1, "ab", 2),
        (0, "c", 2),
        (1, "ab", 3),
        (0, "c", 3),
    ]


@given(steps=st.lists(st.integers(0, 7), max_size=30), data=st.data())
def test_the_probes_list_is_read_a_step_at_a_time(steps: list[int], data: st.DataObject) -> None:
    ends = sorted(data.draw(st.lists(st.integers(0, len(steps)), max_size=8)))
    payloads = [
        event("x" * (n + 1), n + 1, n + 1, specguard_accepted=steps[:end]) for n, end in enumerate(ends)
    ]
    deltas = read_in_groups(payloads, data)
    starts = [0, *ends]
    assert [list(delta.exact) for delta in deltas] == [steps[a:b] for a, b in zip(starts, ends, strict=False)]


def test_a_list_the_probe_did_not_write_is_ignored() -> None:
    for odd in (None, 5, "x", ["x"], [0, 0, [1]], {"a": 1}):
        payloads = [event("x", 1, 1, specguard_accepted=odd), event("xy", 2, 2, specguard_accepted=odd)]
        assert [(delta.text, delta.exact) for delta in GenerateReader().read(payloads)] == [
            ("x", ()),
            ("y", ()),
        ]
    sliced = [event("x", 1, 1, specguard_accepted=[]), event("y", 1, 2, specguard_accepted=[3])]
    assert [delta.exact for delta in GenerateReader().read(sliced)] == [(), ()]


@pytest.mark.parametrize(
    ("finish", "reported", "error"),
    [
        ({"type": "stop", "matched": 2}, "stop", ""),
        ({"type": "stop", "matched": "NaN happened"}, "nan", ""),
        ({"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}, "abort", ""),
        (
            {"type": "abort", "message": "m", "status_code": 500, "err_type": "InternalServerError"},
            "abort",
            "InternalServerError",
        ),
        ({"type": "abort", "message": "m", "status_code": 503, "err_type": None}, "abort", "error"),
        ("length", "length", ""),
    ],
)
def test_endings_are_reported_as_the_engine_gives_them(finish: object, reported: str, error: str) -> None:
    delta = GenerateReader().read([event("x", 1, 1), event("xy", 2, 2, finish_reason=finish)])[-1]
    assert (delta.text, delta.finish, delta.error) == ("y", reported, error)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (
            b'{"error":{"message":"secret","type":"invalid_request_error","code":400,"retryable":false}}',
            "invalid_request_error",
        ),
        (b'{"object":"error","message":"secret","type":"500","param":null,"code":500}', "error"),
        (b'{"error":{"message":"secret"}}', "error"),
    ],
)
def test_an_error_event_is_known_by_its_type(data: bytes, kind: str) -> None:
    assert GenerateReader().read([event("x", 1, 1), data]) == [
        Delta(text="x", tokens=1, ids=(0,)),
        Delta(error=kind),
    ]
    assert GenerateReader().whole(data) == [Delta(error=kind)]


@given(
    noise=st.lists(
        st.binary(max_size=20) | st.sampled_from([b"{", b'"meta_info":{', b"null", b"[]"]), max_size=5
    )
)
def test_no_payload_raises(noise: list[bytes]) -> None:
    reader = GenerateReader()
    good = cumulative(["a", "b", "c"])
    deltas = reader.read([good[0], *noise, good[1], *noise, good[2]])
    assert "".join(delta.text for delta in deltas) == "abc"
    assert all(isinstance(delta, Delta) for delta in reader.whole(b"".join(noise)))


def test_broken_events_are_malformed_and_empty_ones_nothing() -> None:
    deep = b'{"x":' + b"[" * 100_000
    payloads = [b'{"text":"a', b"", b"{}", deep, b'{"text":5}', b"[DONE]", b"\xff", b"[DONE]"]
    assert GenerateReader().read(payloads) == [Delta(malformed=True)] * 4
    for nothing in (b"", b"<html>", b'{"text":"x"}', b'{"text":"'):
        assert GenerateReader().whole(nothing) == [Delta(malformed=True)]


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("sgl-*generate.json")), ids=lambda path: path.name)
def test_a_whole_body_is_one_delta_with_the_totals(capture: Path) -> None:
    value = json.loads(capture.read_bytes())
    meta = value["meta_info"]
    counts = [meta.get("spec_num_correct_drafts", UNKNOWN), meta.get("spec_verify_ct", UNKNOWN)]
    (delta,) = GenerateReader().whole(capture.read_bytes())
    assert (delta.text, delta.tokens, delta.finish) == (value["text"], meta["completion_tokens"], "length")
    assert [delta.accepted, delta.steps] == counts


def test_a_whole_body_of_several_choices_is_numbered_by_place() -> None:
    body = b"[%b,%b]" % (event("a", 1, 1, specguard_accepted=[0, 2]), event("b", 1, 2))
    assert GenerateReader().whole(body) == [
        Delta(0, "a", 1, exact=(0, 2), ids=(0,)),
        Delta(1, "b", 2, ids=(0,)),
    ]


def test_a_long_stream_is_decoded_whole_twice_only() -> None:
    """The way the decoding grows with the stream is the promise; counted, as clocks are noisy."""
    whole = 0

    class Counting(GenerateReader):
        def _read_whole(self, payload: bytes) -> list[Delta]:
            nonlocal whole
            whole += 1
            return super()._read_whole(payload)

    payloads = cumulative([f'w{n} "\\ \n' for n in range(500)])
    assert len(Counting().read(payloads)) == 500
    assert whole == 2


def test_what_the_cache_gave_is_read_from_the_first_event() -> None:
    reader = GenerateReader()
    assert reader.cached == Cached()
    reader.read(payloads_of("sgl-ngram-generate-stream.sse"))
    assert (reader.cached, reader.cached.tier) == (Cached(15, 1, 0, 0), "device")


@pytest.mark.parametrize(
    ("meta", "tier"),
    [
        ({"prompt_tokens": 9, "cached_tokens": 0, "cached_tokens_details": None}, "none"),
        ({"cached_tokens": 4, "cached_tokens_details": None}, "cached"),
        ({"cached_tokens": 4, "cached_tokens_details": {"device": 1, "host": 3}}, "host"),
        ({"cached_tokens": 4, "cached_tokens_details": {"host": 3, "storage": 1}}, "storage"),
        ({}, ""),
    ],
)
def test_the_slowest_tier_names_a_prefix(meta: dict[str, object], tier: str) -> None:
    streamed, whole = GenerateReader(), GenerateReader()
    streamed.read([event("a", 1, 1, index=0, **meta)])
    whole.whole(event("a", 1, 1, index=0, **meta))
    assert streamed.cached.tier == whole.cached.tier == tier


@pytest.mark.parametrize("name", STREAMS)
def test_a_real_streams_ids_are_read_once_each(name: str) -> None:
    payloads = payloads_of(name)
    deltas = GenerateReader().read(payloads)
    assert [i for delta in deltas for i in delta.ids] == json.loads(payloads[-2])["output_ids"]


@given(PIECES, st.data())
def test_ids_are_read_once_each_however_events_are_grouped(pieces: list[str], data: st.DataObject) -> None:
    for payloads in (cumulative(pieces), incremental(pieces)):
        deltas = read_in_groups(payloads, data)
        assert sum(len(delta.ids) for delta in deltas) == len(pieces)


def test_ids_that_are_no_list_of_numbers_are_none() -> None:
    odd = b'{"text":"a","output_ids":["x"],"meta_info":{"completion_tokens":1,"finish_reason":null}}'
    (delta,) = GenerateReader().read([odd])
    assert (delta.text, delta.ids, delta.malformed) == ("a", (), False)
