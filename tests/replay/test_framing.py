"""A response means the same however its bytes are cut, and what cannot be trusted is refused."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.answer import Answer
from replay.framing import BATCH_BYTES, BadResponse, Response
from tests.fakes import OK, answer, chunked, stream

EVENT = b'data: {"id":"r1","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
WORDS = ["καλά ", "好的", "0\\r\\n\\r\\n", "end"]
SAID = "καλά 好的0\r\n\r\nend"


def events(newline: bytes = b"\n") -> list[bytes]:
    pieces = [EVENT.replace(b"%b", word.encode()) for word in WORDS]
    return [piece.replace(b"\n", newline) for piece in [b": ping\n\n", *pieces, END]]


def read(wire: bytes, cuts: tuple[int, ...] = ()) -> Response:
    """Feed a response in pieces, a second apart."""
    response = Response(Answer())
    edges = [0, *sorted(cuts), len(wire)]
    over = [response.feed(wire[start:end], float(at)) for at, (start, end) in enumerate(pairwise(edges))]
    assert not any(over[:-1]) or wire[edges[-2] :] == b""
    return response


def said(response: Response) -> tuple[str, str | None, str | None, str | None]:
    return response.answer.text, response.answer.finish_reason, response.answer.error, response.answer.rid


WIRES = {
    "chunks": stream(*events()),
    "crlf": stream(*events(b"\r\n")),
    "one chunk": stream(b"".join(events())),
    "torn events": OK
    + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    + chunked(*[bytes(b"".join(events())[n : n + 7]) for n in range(0, len(b"".join(events())), 7)]),
    "length": answer(b"".join(events())),
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nx: y\r\n\r\n" + stream(*events()),
    "trailers": stream(*events())[:-2] + b"x-sum: 1\r\n\r\n",
    "extension": stream(*events()).replace(b"\r\n0\r\n", b"\r\n0;x=y\r\n"),
}


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_an_answer_is_the_same_whatever_its_framing_and_wherever_it_is_cut(wire: bytes) -> None:
    whole = said(read(wire))
    assert whole == (SAID, "stop", None, "r1")
    for cut in range(1, len(wire)):
        response = read(wire, (cut,))
        assert said(response) == whole
        assert response.keep


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
def test_byte_by_byte_it_is_still_the_same(wire: bytes) -> None:
    assert said(read(wire, tuple(range(1, len(wire))))) == (SAID, "stop", None, "r1")


@given(st.lists(st.integers(1, len(WIRES["crlf"]) - 1), unique=True, max_size=12))
def test_random_cuts_change_nothing(cuts: list[int]) -> None:
    assert said(read(WIRES["crlf"], tuple(cuts))) == (SAID, "stop", None, "r1")


def test_each_event_has_the_time_of_the_read_that_completed_it() -> None:
    wire = stream(*events())
    ends = [wire.index(word.encode()) for word in ("καλά", "好的", "\\r\\n", "end")]
    response = read(wire, (ends[1], ends[2]))
    assert response.first_at == 0.0
    assert response.answer.times == [0.0, 1.0, 2.0, 2.0]


def test_a_long_stream_is_read_as_it_comes_and_not_held_to_its_end() -> None:
    response = Response(Answer())
    event = EVENT.replace(b"%b", b"x" * 1000)
    response.feed(stream(event)[: -len(b"0\r\n\r\n")], 0.0)
    piece = chunked(event)[: -len(b"0\r\n\r\n")]
    for at in range(3 * BATCH_BYTES // len(piece)):
        assert not response.feed(piece, float(at))
    assert len(response.answer.times) > BATCH_BYTES // len(piece)


def test_a_body_without_length_ends_with_its_connection() -> None:
    response = Response(Answer())
    assert not response.feed(OK + b"content-type: text/event-stream\r\n\r\n" + b"".join(events()), 1.0)
    assert response.eof(2.0)
    assert not response.keep
    assert response.answer.text == SAID


def test_a_body_that_stops_short_is_not_over_and_keeps_what_came() -> None:
    response = Response(Answer())
    response.feed(stream(*events())[:-9], 1.0)
    assert not response.eof(2.0)
    assert response.answer.text == SAID


def test_bytes_after_the_response_cost_the_connection() -> None:
    assert read(answer(b"{}")).keep
    assert not read(answer(b"{}") + b"HTTP/1.1 200 OK\r\n").keep


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nconnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_a_server_that_closes_is_believed(head: bytes) -> None:
    assert not read(answer(b"{}", head)).keep


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_is_over_with_its_head(status: int) -> None:
    response = Response(Answer())
    assert response.feed(b"HTTP/1.1 %d X\r\n\r\n" % status, 0.0)


HEAD = OK + b"transfer-encoding: chunked\r\n\r\n"
BAD = {
    "no http": b"SSH-2.0-OpenSSH\r\n\r\n",
    "http 2": b"HTTP/2 200 OK\r\n\r\n",
    "upgrade": b"HTTP/1.1 101 Switching\r\n\r\n",
    "gzip": OK + b"content-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
    "coding": OK + b"transfer-encoding: gzip, chunked\r\n\r\n",
    "length": OK + b"content-length: -3\r\n\r\n",
    "no header": OK + b"what is this\r\n\r\n",
    "space": OK + b"content-length : 3\r\n\r\n",
    "long head": OK + b"x: " + b"y" * 70_000,
    "size": HEAD + b"xyz\r\n",
    "negative": HEAD + b"-5\r\nabc",
    "underscore": HEAD + b"1_0\r\n0123456789abcdef\r\n",
    "huge": HEAD + b"fffffffff\r\n",
    "no size": HEAD + b"1" * 70_000,
    "longer": HEAD + b"2\r\nabcd\r\n",
}


@pytest.mark.parametrize("wire", BAD.values(), ids=BAD)
def test_what_would_be_misread_is_refused(wire: bytes) -> None:
    with pytest.raises(BadResponse):
        read(wire, tuple(range(997, len(wire), 997)))
