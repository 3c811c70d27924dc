"""Bytes in are bytes out, and where the reads were cut changes nothing."""

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.sse import EventSplitter, payload, payloads

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
STREAMS = sorted(CAPTURES.glob("*.sse"))
# Any mixture of what the splitter looks at: the three line ends, fields, comments, a mark, broken UTF-8.
SCRAPS = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"data: ",
        b"data:",
        b"data",
        b": ping",
        b"{}",
        b"\xef\xbb\xbf",
        b"\xff",
        b"id: 1",
    ]
)
NOISE = st.lists(SCRAPS | st.binary(max_size=4), max_size=30).map(b"".join)


def pieces(data: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    places = [0, *sorted(cuts), len(data)]
    return (data[a:b] for a, b in itertools.pairwise(places))


def split(data: bytes, cuts: Iterable[int] = (), bound: int = 1 << 20) -> tuple[list[bytes], bytes]:
    splitter = EventSplitter(bound)
    events = [event for piece in pieces(data, cuts) for event in splitter.feed(piece)]
    return events, splitter.rest()


def slow_payloads(data: bytes) -> list[bytes]:
    """The standard's rules, line by line over a whole stream: the reference the splitter is held to."""
    found: list[bytes] = []
    data_lines: list[bytes] = []
    for line in re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf"))[:-1]:
        if not line:
            found += [b"\n".join(data_lines)] if data_lines else []
            data_lines = []
        name, _, value = line.partition(b":")
        if name == b"data":
            data_lines.append(value.removeprefix(b" "))
    return found


@given(data=NOISE, cuts=st.lists(st.integers(0, 120), max_size=8))
def test_no_byte_is_lost_and_no_cut_matters(data: bytes, cuts: list[int]) -> None:
    whole, rest = split(data)
    torn, torn_rest = split(data, [min(cut, len(data)) for cut in cuts])
    assert b"".join(whole) + rest == data
    assert (torn, torn_rest) == (whole, rest)


@given(data=NOISE.filter(lambda noise: b"\xef\xbb\xbf" not in noise[1:]))
def test_payloads_are_what_the_standard_reads(data: bytes) -> None:
    events, rest = split(data + b"x\n\n")  # the "x" settles a carriage return that waits for its line feed
    assert rest == b""
    assert [read for event in events if (read := payload(event)) is not None] == slow_payloads(
        data + b"x\n\n"
    )


@pytest.mark.parametrize("capture", STREAMS, ids=lambda path: path.name)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_a_capture_cut_at_every_place_gives_the_same_events(capture: Path, line_end: bytes) -> None:
    data = capture.read_bytes()[:4000]
    data = data[: data.rindex(b"\n\n") + 2].replace(b"\n", line_end) + b": end\n"
    whole = split(data)
    assert len(whole[0]) == len(slow_payloads(data)) > 2
    for cut in range(len(data)):
        assert split(data, [cut]) == whole
    assert split(data, range(len(data))) == whole


def test_a_read_of_whole_events_is_split_and_a_stray_line_end_kept() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\n\n") == [b"data: 1\n\n"]
    assert splitter.feed(b"data: 1\n\ndata: 2\n\n: c\n\n") == [b"data: 1\n\n", b"data: 2\n\n", b": c\n\n"]
    assert splitter.feed(b"data: 3\n\n\n") == [b"data: 3\n\n"]
    assert splitter.rest() == b"\n"
    assert splitter.feed(b"") == []
    assert splitter.feed(b"data: 4\n\n") == [b"\ndata: 4\n\n"]


def test_a_blank_line_torn_between_carriage_return_and_line_feed_stays_whole() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\r\n\r") == []
    assert splitter.feed(b"\ndata: 2\r\n\r\n") == [b"data: 1\r\n\r\n", b"data: 2\r\n\r\n"]
    assert splitter.rest() == b""


@pytest.mark.parametrize("size", [1, 7, 64])
def test_an_event_over_the_bound_passes_through_in_pieces_that_nobody_can_read(size: int) -> None:
    torn = b'data: {"a":\ndata: ' + b"x" * 200 + b"\ndata: 1}\n\n"
    data = b"data: before\n\n" + torn + b"data: after\n\n"
    events, rest = split(data, range(0, len(data), size), bound=100)
    assert b"".join(events) + rest == data
    assert [payload(event) for event in events if payload(event) is not None] == [b"before", b"after"]
    assert max(map(len, events)) <= 100 + size


def test_oversize_events_are_counted_once_however_they_come() -> None:
    data = b"data: " + b"x" * 300 + b"\n\n"
    for cuts in ([], [5], range(len(data))):
        splitter = EventSplitter(100)
        for piece in pieces(data, cuts):
            splitter.feed(piece)
        assert splitter.oversize == 1
        assert splitter.rest() == b""
        assert splitter.feed(b"data: 1\n\n") == [b"data: 1\n\n"]


def test_what_is_pending_never_outgrows_the_bound() -> None:
    splitter = EventSplitter(1000)
    for _ in range(100):
        splitter.feed(b"x" * 999)
        assert len(splitter.rest()) <= 1000
    assert splitter.oversize == 1


def test_a_long_event_in_small_reads_costs_no_more_than_its_length() -> None:
    """Quadratic search over 1 MiB in 16-byte reads would be 34 GB: the test's timeout is the assertion."""
    data = b"data: " + b"x" * ((1 << 20) - 100) + b"\n\n"
    events, rest = split(data, range(0, len(data), 16))
    assert (events, rest) == ([data], b"")


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: 1\n\n", b"1"),
        (b"data:1\n\n", b"1"),
        (b"data:  1\n\n", b" 1"),
        (b"data: 1\r\n\r\n", b"1"),
        (b"data: 1\r\r", b"1"),
        (b"\xef\xbb\xbfdata: 1\n\n", b"1"),
        (b"\ndata: 1\n\n", b"1"),
        (b"data: 1\ndata: 2\n\n", b"1\n2"),
        (b"data: 1\ndata\ndata: 3\n\n", b"1\n\n3"),
        (b": note\nevent: x\nid: 7\nretry: 5\ndata: 1\n\n", b"1"),
        (b"data:\n\n", b""),
        (b"data\n\n", b""),
        (b": ping\n\n", None),
        (b"event: x\n\n", None),
        (b"Data: 1\n\n", None),
        (b"database: 1\n\n", None),
        (b"\n\n", None),
        (b"", None),
        (b"data: 1", None),
        (b"data: 1\n", None),
        (b"data: 1\r\n", None),
    ],
)
def test_the_data_of_one_event(event: bytes, data: bytes | None) -> None:
    assert payload(event) == data


def test_a_splitter_shows_its_state_and_none_of_the_text() -> None:
    splitter = EventSplitter()
    splitter.feed(b"data: secret")
    assert repr(splitter) == "<EventSplitter 12 bytes pending, 0 oversize>"


ODD = [b": ping\n\n", b"data:1\n\n", b"data: a\r\n\r\n", b"data: a\ndata: b\n\n", b"data: torn", b"x\n\n"]


@given(st.lists(st.sampled_from([b"data: {}\n\n", b"data: \n\n", *ODD])))
def test_payloads_of_many_are_those_of_each(events: list[bytes]) -> None:
    assert payloads(events) == [found for event in events if (found := payload(event)) is not None]


@given(st.lists(st.binary(max_size=12).map(lambda text: b"data: " + text + b"\n\n"), max_size=4))
def test_payloads_are_not_fooled_by_what_stands_in_them(events: list[bytes]) -> None:
    split = [one for event in events for one in EventSplitter().feed(event)]
    assert payloads(split) == [found for event in split if (found := payload(event)) is not None]


@given(data=NOISE | st.just(b"data: {}\n\n"), before=NOISE)
def test_a_plain_read_is_one_event_and_its_data(data: bytes, before: bytes) -> None:
    splitter = EventSplitter()
    splitter.feed(before)
    if splitter.is_plain(data):
        assert (splitter.feed(data), splitter.rest()) == ([data], b"")
        assert payload(data) == data[6:-2]


def test_only_the_usual_read_is_plain() -> None:
    splitter = EventSplitter(100)
    assert splitter.is_plain(b"data: {}\n\n")
    odd = (b"", b"\n", b"data: 1\n", b"data:1\n\n", b": c\n\n", b"data: 1\n\ndata: 2\n\n", b"data: \r\n\n")
    assert not any(map(splitter.is_plain, (*odd, b"data: " + b"x" * 100 + b"\n\n")))
    splitter.feed(b"d")
    assert not splitter.is_plain(b"data: {}\n\n")


@given(data=NOISE)
def test_payloads_together_are_those_of_each(data: bytes) -> None:
    events, _ = split(data)
    assert payloads(events) == [read for event in events if (read := payload(event)) is not None]
