from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service.core.choice import IDS_KEPT, PIECE_CHARS, SLACK_BYTES, TAIL_BYTES, Choice
from service.core.events import Delta, Look, WorkerFacts


def choice() -> Choice:
    return Choice(0, WorkerFacts(draft_tokens=4), [])


def looks(texts: list[str]) -> list[Look]:
    followed = choice()
    return [
        look
        for place, text in enumerate(texts)
        for look in followed.read([Delta(text=text, tokens=place + 1)], 0.1 * place)
    ]


@given(st.lists(st.text(max_size=3000), min_size=1, max_size=6))
def test_the_looks_together_hold_the_text_once_and_in_order(texts: list[str]) -> None:
    assert "".join(look.text for look in looks(texts)) == "".join(texts)


def test_a_long_text_is_looked_at_in_pieces_and_its_tokens_are_spread_over_them() -> None:
    seen = list(choice().read([Delta(text="x" * (3 * PIECE_CHARS), tokens=300, finish="stop")], 0.0))
    assert [len(look.text) for look in seen] == [PIECE_CHARS] * 3
    assert [look.tokens for look in seen] == [100, 200, 300]
    assert [look.ended for look in seen] == [False, False, True]


def test_the_tail_is_bounded_and_ends_in_what_came_last() -> None:
    followed = choice()
    for place in range(200):
        (look,) = followed.read([Delta(text=f"{place:04d}" + "é" * 500, tokens=place + 1)], 0.0)
        assert len(look.tail) <= TAIL_BYTES + SLACK_BYTES + 4 * PIECE_CHARS
        assert bytes(look.tail).endswith(f"{place:04d}".encode() + "é".encode() * 500)


def test_the_newest_ids_are_kept_in_four_bytes_each_and_none_that_no_vocabulary_has() -> None:
    followed = choice()
    for start in range(0, IDS_KEPT + 128, 64):
        (look,) = followed.read([Delta(text="a", ids=(-1, *range(start, start + 64), 1 << 40))], 0.0)
        assert look.ids == (-1, *range(start, start + 64), 1 << 40)
    kept = followed.said
    assert kept is not None
    assert kept.tolist() == list(range(128, IDS_KEPT + 128))
    assert kept.itemsize * len(kept) == 4 * IDS_KEPT


def test_tokens_never_run_backwards() -> None:
    followed = choice()
    counts = (3, 9, 5, 12)
    seen = [look.tokens for n in counts for look in followed.read([Delta(text="word " * 9, tokens=n)], 0.0)]
    assert all(before <= after for before, after in pairwise(seen))


def test_its_state_shows_without_its_text() -> None:
    followed = choice()
    list(followed.read([Delta(text="Jane Doe 12345678", tokens=4)], 0.0))
    assert repr(followed) == "<Choice 0 tokens=4 chars=17 CLEAN>"


def test_a_run_gives_the_look_that_its_events_give_alone() -> None:
    alone, together = choice(), choice()
    counts = (1, 4, 5, 9, 9, 30)
    events = [Delta(text="word ", tokens=count) for count in counts]
    run = Delta(text="word " * len(counts), tokens=counts[-1], run=counts)
    for at in (1.0, 2.0):
        (one,) = alone.read(events, at)
        (other,) = together.read([run], at)
        assert one == other
    assert alone.look(3.0, quiet_s=1.0) == together.look(3.0, quiet_s=1.0)
