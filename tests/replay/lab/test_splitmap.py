"""LayerSplit's parts: every layer has one owner, chunks cover the new places, silence is named."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lab.model import Shape
from replay.lab.splitmap import DONE, KV, PREFIX, Board, Geometry, PeerGoneError

SHAPE = Shape(layers=4, width=8, heads=2, hidden=8, previous_at=0, second_at=1, second_width=0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_layer_has_one_owner_and_the_shares_add_up(ranks: int) -> None:
    geometry = Geometry(SHAPE, ranks, pages=8)
    kept = [layer for rank in range(ranks) for layer in geometry.layers_of(rank)]
    assert sorted(kept) == [0, 1, 2, 3]
    assert all(layer in geometry.layers_of(geometry.owner(layer)) for layer in range(4))
    assert sum(geometry.kept_bytes(rank) for rank in range(ranks)) == Geometry(SHAPE, 1, 8).kept_bytes(0)


@given(st.integers(1, 4), st.integers(0, 300), st.integers(4, 300))
def test_chunks_cover_the_new_places_in_order_and_evenly(ranks: int, start: int, new: int) -> None:
    geometry = Geometry(SHAPE, ranks, pages=8)
    chunks = [geometry.chunk(rank, start, start + new) for rank in range(ranks)]
    assert [place for chunk in chunks for place in chunk] == list(range(start, start + new))
    assert max(map(len, chunks)) - min(map(len, chunks)) <= 1


@pytest.mark.parametrize(("ranks", "pages"), [(0, 8), (5, 8), (2, 0)])
def test_a_split_that_leaves_somebody_nothing_is_refused(ranks: int, pages: int) -> None:
    with pytest.raises(ValueError, match=r"ranks|pages"):
        Geometry(SHAPE, ranks, pages)


def test_a_signal_is_heard_once_said_and_for_its_job_only() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        here, there = Board({1: ours}), Board({0: theirs})
        there.say(7, PREFIX, 2)
        here.wait(7, PREFIX, 2, [1])
        assert here.heard(7, PREFIX, 2, 1)
        assert not here.heard(8, PREFIX, 2, 1)
        assert not here.heard(7, DONE, 2, 1)
        here.forget(7)
        assert not here.heard(7, PREFIX, 2, 1)
        ours.shutdown(socket.SHUT_RDWR)


def test_a_peer_that_says_nothing_is_named() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        board = Board({1: ours}, wait_s=0.01)
        with pytest.raises(PeerGoneError, match=r"no done of layer 3 from ranks \[1\]"):
            board.wait(1, DONE, 3, [1])
        ours.shutdown(socket.SHUT_RDWR)


def test_a_peer_that_is_gone_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        board = Board({1: ours}, wait_s=50)
        theirs.close()
        with pytest.raises(PeerGoneError, match="no kv of layer 0"):
            board.wait(1, KV, 0, [1])
