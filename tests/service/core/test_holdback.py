from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from service.core.events import UNKNOWN
from service.core.holdback import HoldBack

WINDOW: dict[str, Any] = {"window_tokens": 10, "window_s": 5.0, "tool_bytes": 100, "tool_s": 30.0}


def push(hold: HoldBack, data: bytes, tokens: int, at: float = 0.0, *, tool: bool = False) -> None:
    hold.push(data, events=1, tokens=tokens, at=at, tool_open=tool)


def test_the_newest_tokens_stay() -> None:
    hold = HoldBack()
    for place in range(6):
        push(hold, b"%d" % place, 4 * place)
    assert hold.due(**WINDOW) == b"012"  # 20 - 8 >= 10 > 20 - 12
    assert hold.released_tokens == 8


def test_it_tells_how_much_has_come_in_by_tokens_or_by_time() -> None:
    hold = HoldBack()
    assert not hold.spans(0, 0.0)
    push(hold, b"a", 1, at=1.0)
    push(hold, b"b", 9, at=2.0)
    assert hold.spans(9, 99.0)
    assert hold.spans(99, 1.0)
    assert not hold.spans(10, 1.1)


def test_the_newest_seconds_stay_when_they_are_fewer() -> None:
    hold = HoldBack()
    push(hold, b"a", 1, at=0.0)
    push(hold, b"b", 2, at=4.0)
    assert hold.due(**WINDOW) == b""
    push(hold, b"c", 3, at=5.0)
    assert hold.due(**WINDOW) == b"a"


def test_without_token_counts_an_event_is_a_token() -> None:
    hold = HoldBack()
    for _ in range(12):
        push(hold, b"x", UNKNOWN)
    assert hold.due(**WINDOW) == b"xx"


def test_an_open_tool_call_is_held_and_so_is_what_follows_it() -> None:
    hold = HoldBack()
    push(hold, b"say", 1)
    push(hold, b"{", 2, tool=True)
    push(hold, b"}", 50, tool=True)
    assert hold.due(**WINDOW) == b"say"
    push(hold, b"end", 51)
    push(hold, b"text", 70)
    assert hold.due(**WINDOW) == b"{}end"


def test_a_tool_call_too_large_or_too_old_flows_like_text() -> None:
    large, old = HoldBack(), HoldBack()
    push(large, b"{" * 101, 1, tool=True)
    push(large, b"y", 60, tool=True)
    assert large.due(**WINDOW) == b"{" * 101
    push(old, b"{", 1, at=0.0, tool=True)
    push(old, b"y", 60, at=31.0, tool=True)
    assert old.due(**WINDOW) == b"{"


def test_dropped_bytes_are_never_seen_again() -> None:
    hold = HoldBack()
    push(hold, b"bad", 1)
    hold.drop()
    assert (hold.drain(), hold.bytes, hold.due(**WINDOW)) == (b"", 0, b"")


def test_its_state_shows_but_not_its_bytes() -> None:
    hold = HoldBack()
    push(hold, b"secret", 1, tool=True)
    assert repr(hold) == "<HoldBack 1 batches, 6 bytes, tool=True>"


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=8), st.integers(0, 9), st.booleans(), st.booleans()),
        max_size=40,
    )
)
def test_bytes_come_out_once_and_in_order(batches: list[tuple[bytes, int, bool, bool]]) -> None:
    hold, out, tokens = HoldBack(), b"", 0
    for data, more, tool, take in batches:
        tokens += more
        push(hold, data, tokens, tool=tool)
        out += hold.due(**WINDOW) if take else b""
    out += hold.drain()
    assert out == b"".join(data for data, *_ in batches)
    assert hold.bytes == 0
