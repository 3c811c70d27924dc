"""Turns wait within bounds, and where they come too fast whole sessions are left out."""

from service.core.cache_watch import MIN_CHARS, SessionTurn
from service.core.events import Cached
from service.core.turns import CHARS_MAX, SHARE_MIN, TURNS_MAX, Turns


def turn(session: int, chars: int = MIN_CHARS) -> SessionTurn:
    return SessionTurn("x" * chars, "m", Cached(), 0.0, session=str(session))


def test_a_turn_is_taken_once_and_a_short_one_not_at_all() -> None:
    turns = Turns()
    turns.offer(turn(1))
    turns.offer(turn(2, MIN_CHARS - 1))
    assert [one.session for one in turns.take()] == ["1"]
    assert turns.take() == []


def test_what_finds_the_queue_full_is_left_out_by_whole_sessions() -> None:
    turns = Turns()
    for round_ in range(6):
        for session in range(400):
            turns.offer(turn(session))
        seen = {one.session for one in turns.take()}
        assert len(seen) <= TURNS_MAX, round_
    before = turns.share
    assert before < 1
    first, second = list[str](), list[str]()
    for found in (first, second):
        for session in range(0, 400, 16):
            turns.offer(turn(session))
        turns.share = before
        found += [one.session for one in turns.take()]
        turns.share = before
    assert first == second


def test_there_is_room_again_once_it_is_quiet() -> None:
    turns = Turns()
    for session in range(4 * TURNS_MAX):
        turns.offer(turn(session))
    assert SHARE_MIN <= turns.share < 1
    assert turns.skipped > 0
    turns.take()
    for _ in range(20):
        turns.take()
    assert turns.share == 1.0


def test_characters_that_wait_are_bounded() -> None:
    turns = Turns()
    for session in range(40):
        turns.offer(turn(session, CHARS_MAX // 4))
        turns.share = 1.0
    assert sum(len(one.prompt) for one in turns.take()) <= CHARS_MAX + CHARS_MAX // 4
