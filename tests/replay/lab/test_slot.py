"""A slot moves as the table says, and each protocol gives up pages in its own way only."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lab.slot import PROTOCOL, TABLE, IllegalMoveError, Lease, Move, Race, State

PATHS = {
    State.ALLOCATED: (),
    State.WRITING: (Move.ANNOUNCE,),
    State.ACKNOWLEDGED: (Move.ANNOUNCE, Move.DONE),
    State.IN_USE: (Move.ANNOUNCE, Move.DONE, Move.JOIN),
    State.DRAINING: (Move.ANNOUNCE, Move.ABORT),
    State.RECLAIMED: (Move.WITHDRAW,),
}


def lease_in(state: State, race: Race) -> Lease:
    lease = Lease(race)
    for move in PATHS[state]:
        lease.move(move)
    assert lease.state is state
    return lease


def reachable() -> list[tuple[State, Race]]:
    draining_needs_abort = {(State.DRAINING, Race.UNFIXED)}
    return [pair for pair in product(State, Race) if pair not in draining_needs_abort]


@pytest.mark.parametrize(("state", "race"), reachable())
@pytest.mark.parametrize("move", Move)
def test_every_move_is_in_the_table_and_the_protocol_or_raises(state: State, race: Race, move: Move) -> None:
    lease = lease_in(state, race)
    allowed = (state, move) in TABLE and race in PROTOCOL.get(move, Race)
    if allowed:
        assert lease.move(move) is TABLE[state, move]
    else:
        with pytest.raises(IllegalMoveError, match=f"{move} of a slot that is {state}, protocol {race}"):
            lease.move(move)
        assert lease.state is state


def test_nothing_leaves_reclaimed() -> None:
    assert not [pair for pair in TABLE if pair[0] is State.RECLAIMED]


def test_only_the_unfixed_protocol_frees_pages_that_a_writer_knows_without_a_word() -> None:
    assert lease_in(State.WRITING, Race.UNFIXED).give_up() is State.RECLAIMED
    for race in (Race.DEFERRED, Race.FIXED):
        assert lease_in(State.WRITING, race).give_up() is State.DRAINING


def test_only_the_deferred_protocol_releases_anyway() -> None:
    assert lease_in(State.DRAINING, Race.DEFERRED).move(Move.EXPIRE) is State.RECLAIMED
    with pytest.raises(IllegalMoveError):
        lease_in(State.DRAINING, Race.FIXED).move(Move.EXPIRE)


@pytest.mark.parametrize("race", Race)
def test_pages_that_prefill_never_heard_of_go_back_at_once(race: Race) -> None:
    assert Lease(race).give_up() is State.RECLAIMED


@given(st.sampled_from(list(Race)), st.lists(st.sampled_from(list(Move)), max_size=12))
def test_under_the_fix_no_page_is_reclaimed_while_prefill_may_write(race: Race, moves: list[Move]) -> None:
    lease, may_write = Lease(race), False
    for move in moves:
        try:
            state = lease.move(move)
        except IllegalMoveError:
            continue
        may_write = (may_write or move is Move.ANNOUNCE) and move not in {Move.DONE, Move.FAIL, Move.FENCE}
        if state is State.RECLAIMED and may_write:
            assert race is not Race.FIXED
