"""Every verify step of every request, once, whatever becomes of the batch."""

from weakref import ref

from hypothesis import given
from hypothesis import strategies as st

from service.probe.ledger import MAX_WAITING, Ledger, Mark
from service.probe.wire import NO_STEP, U32_BYTES, Rows, key_of, u32_column
from tests.service.probe.engine_stand_ins import Req


def ledger(*, keeps: bool = True) -> Ledger:
    return Ledger(lambda req: Mark(key_of(req.rid), b""), keeps=keeps)


def rows(*told: tuple[str, int, int]) -> Rows:
    """(rid, step, accepted) as columns."""
    keys = b"".join(key_of(rid) for rid, _, _ in told)
    steps = u32_column([step for _, step, _ in told])
    return Rows(keys, b"", steps, bytes(count for _, _, count in told))


def taken(book: Ledger, reqs: list[Req]) -> list[list[int]]:
    return [list(counts) for counts in book.take(reqs)]


def test_a_request_is_announced_and_then_counted() -> None:
    book, req = ledger(), Req("a")
    assert book.read([req]) == rows(("a", 0, NO_STEP))
    assert book.read([req]) == rows()
    req.verify(3)
    assert book.read([req]) == rows(("a", 1, 3))
    req.verify(0)
    assert book.read([req]) == rows(("a", 2, 0))


def test_a_request_that_comes_with_its_first_step_needs_no_announcement() -> None:
    book, req = ledger(), Req("a")
    req.verify(2)
    assert book.read([req]) == rows(("a", 1, 2))


def test_batches_change_and_every_request_goes_on_where_it_was() -> None:
    book, a, b, c = ledger(), Req("a"), Req("b"), Req("c")
    book.read([a, b])
    a.verify(1)
    b.verify(2)
    book.read([a, b])
    a.verify(3)
    assert book.read([c, a]) == rows(("a", 2, 3), ("c", 0, NO_STEP))
    b.verify(0)
    c.verify(1)
    assert book.read([b, c]) == rows(("b", 2, 0), ("c", 1, 1))


def test_steps_that_went_by_unseen_are_a_gap_and_not_invented() -> None:
    book, req = ledger(), Req("a")
    book.read([req])
    for _ in range(3):
        req.verify(2)
    assert book.read([req]) == rows()
    req.verify(1)
    assert book.read([req]) == rows(("a", 4, 1))
    assert taken(book, [req]) == [[1]]


def test_a_request_whose_counts_begin_anew_is_followed() -> None:
    book, req = ledger(), Req("a")
    for _ in range(2):
        req.verify(2)
        book.read([req])
    req.spec_verify_ct = req.spec_num_correct_drafts = 0
    assert book.read([req]) == rows()
    req.verify(1)
    assert book.read([req]) == rows(("a", 1, 1))


def test_counts_wait_for_a_chunk_that_is_held_back() -> None:
    book, fast, slow = ledger(), Req("a"), Req("b")
    book.read([fast, slow])
    for accepted in (3, 0):
        fast.verify(accepted)
        slow.verify(1)
        book.read([fast, slow])
        assert taken(book, [fast]) == [[accepted]]
    assert taken(book, [slow, fast]) == [[1, 1], []]


def test_the_same_counts_are_never_taken_twice() -> None:
    book, req = ledger(), Req("a")
    req.verify(2)
    book.read([req])
    assert taken(book, [req]) == [[2]]
    assert taken(book, [req]) == [[]]
    book.read([req])  # the overlapped schedule comes by twice
    assert taken(book, [req]) == [[]]


def test_a_batch_that_the_engine_changes_before_its_chunks_go_out_is_read_anew() -> None:
    book, batch = ledger(), [Req("a"), Req("b")]
    for req, accepted in zip(batch, (1, 2), strict=True):
        req.verify(accepted)
    book.read(batch)
    batch.reverse()
    assert taken(book, batch) == [[2], [1]]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 255)), max_size=8))
def test_a_step_is_told_where_one_was_made_and_nowhere_else(growths: list[tuple[int, int]]) -> None:
    book, batch = ledger(), [Req(str(place)) for place in range(len(growths))]
    book.read(batch)
    for req, (steps, accepted) in zip(batch, growths, strict=True):
        req.spec_verify_ct += steps
        req.spec_num_correct_drafts += accepted
    made = [(req.rid, 1, grown[1]) for req, grown in zip(batch, growths, strict=True) if grown[0] == 1]
    assert book.read(batch) == rows(*made)


def test_without_chunks_to_carry_them_no_counts_are_kept() -> None:
    book, req = ledger(keeps=False), Req("a")
    for _ in range(5):
        req.verify(2)
        book.read([req])
    assert taken(book, [req]) == [[]]
    assert not book._waiting


def test_requests_that_end_without_a_chunk_leave_little_behind() -> None:
    book = ledger()
    for number in range(MAX_WAITING + 10):
        req = Req(str(number))
        req.verify(1)
        book.read([req])
    assert len(book._waiting) <= MAX_WAITING + 1


def test_of_requests_no_more_than_the_last_batch_is_held() -> None:
    book, req = ledger(), Req("a")
    left = ref(req)
    req.verify(1)
    book.read([req])
    book.read([Req("b")])
    del req
    assert left() is None


class Play:
    """Requests that come, verify, are emitted or held back, and go."""

    def __init__(self) -> None:
        self.reqs = [Req(str(number)) for number in range(4)]
        self.truth: dict[str, list[int]] = {req.rid: [] for req in self.reqs}
        self.told: dict[str, list[int]] = {req.rid: [] for req in self.reqs}
        self.taken: dict[str, list[int]] = {req.rid: [] for req in self.reqs}


MOVES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), max_size=4, unique=True),  # the batch
        st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=4, max_size=4),  # accepted, or no step
        st.lists(st.integers(0, 3), max_size=4, unique=True),  # whose chunks go out
    ),
    max_size=30,
)


@given(MOVES)
def test_nothing_is_lost_doubled_or_mixed_up(
    moves: list[tuple[list[int], list[int | None], list[int]]],
) -> None:
    book, play = ledger(), Play()
    names = {key_of(req.rid): req.rid for req in play.reqs}
    for batch, accepted, chunks in moves:
        for place in batch:
            count = accepted[place]
            if count is not None:
                play.reqs[place].verify(count)
                play.truth[str(place)].append(count)
        found = book.read([play.reqs[place] for place in batch])
        for row, count in enumerate(found.accepted):
            if count != NO_STEP:
                rid = names[found.keys[8 * row : 8 * row + 8]]
                play.told[rid].append(count)
                step = int.from_bytes(found.steps[U32_BYTES * row :][:U32_BYTES], "little")
                assert step == len(play.told[rid])
        emitted = [play.reqs[place] for place in chunks if place in batch]
        for req, counts in zip(emitted, book.take(emitted), strict=True):
            play.taken[req.rid] += counts
    assert play.told == play.truth
    book.read(play.reqs)
    for req, counts in zip(play.reqs, book.take(play.reqs), strict=True):
        play.taken[req.rid] += counts
    assert play.taken == play.truth
