"""How many draft tokens each request of a batch accepted since the last look.

A request's `spec_verify_ct` and `spec_num_correct_drafts` grow by one verify step at a time; their growth
since the last look is that step. How far we have read, a `Mark` on the request itself knows; of requests no
more than the batch read last is held, until the next one. Most batches are the batch before, one step on:
then whole columns are read, compared and subtracted, and no request is looked at alone. A column of 32-bit
numbers is one large number, too: "each is one step on" and "each accepted so many" are one subtraction each.
Marks are brought up to date when the batch changes.

The counts of a step go through bytes: what is no small integer raises there, and what comes out again is
plain integers. Output is valid by construction, not by checking. What chunks carry is a sequence a request,
by which the engine extends a list of its own; the usual one, of a single count, is made once for all.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import compress
from operator import sub
from typing import Any, Final, cast

from service.probe.wire import NO_STEP, U32_BYTES, Rows, u32_column

MAX_WAITING: Final = 4096
"""Marks of requests that end without a chunk stay behind; past this many only the batch's own are kept."""
_ALONE: Final = tuple((count,) for count in range(256))
"""What a chunk carries after one step. Shared by all requests, and therefore no lists."""
_MORE_THAN_A_BYTE: Final = 0xFFFFFF00


class Mark:
    """How far one request has been read."""

    __slots__ = ("accepted", "key", "pending", "room", "said", "steps")

    def __init__(self, key: bytes, room: bytes) -> None:
        self.key = key
        self.room = room  # b"" without disaggregation
        self.steps = 0
        self.accepted = 0  # draft tokens of these steps
        self.said = False  # announced before its first step
        self.pending: list[int] = []  # counts that no chunk has carried yet


class Ledger:
    """The batch read last, in columns. `mark` makes the mark of a new request."""

    __slots__ = (
        "_accepted",
        "_batch",
        "_counts",
        "_grown",
        "_keeps",
        "_keys",
        "_mark",
        "_marks",
        "_reqs",
        "_rooms",
        "_stand",
        "_steps",
        "_sum",
        "_waiting",
    )

    def __init__(self, mark: Callable[[Any], Mark], *, keeps: bool) -> None:
        self._mark = mark
        self._keeps = keeps  # counts for chunks
        self._marks: list[Mark] = []
        self._keys = b""
        self._rooms = b""
        self._steps: list[int] = []
        self._accepted: list[int] = []
        self._stand = self._sum = 0  # these two columns, each as one number
        self._reqs: list[Any] = []  # of these marks: the same requests have the same marks
        # The last step, as long as no chunk has carried it: who, who of them moved, by how much.
        self._batch: list[Mark] = []
        self._grown: list[bool] = []
        self._counts = b""
        self._waiting: set[Mark] = set()  # whose pending counts are not none

    def read(self, reqs: Sequence[Any]) -> Rows:
        """A row for each verify step since the last look, and for each request seen for the first time."""
        new = reqs != self._reqs and self._turn_to(reqs)
        steps = [req.spec_verify_ct for req in reqs]
        accepted = [req.spec_num_correct_drafts for req in reqs]
        column = u32_column(steps)
        stood, self._stand = self._stand, int.from_bytes(column, "little")
        before, self._steps = self._steps, steps
        summed, self._sum = self._sum, int.from_bytes(u32_column(accepted), "little")
        sums, self._accepted = self._accepted, accepted
        self._spill()
        if self._stand - stood == _each(1, len(steps)):
            counts = _counts(self._sum - summed, len(steps))
            self._keep([], counts)
            return Rows(self._keys, self._rooms, column, counts)
        # Growth beyond one is a gap: steps went by unseen, and nothing is invented for them.
        moved = [growth == 1 for growth in map(sub, steps, before)]
        counts = bytes(compress(map(sub, accepted, sums), moved))
        self._keep(moved, counts)
        told = list(compress(self._marks, moved)), list(compress(steps, moved))
        return _rows(*told, counts, _unsaid(self._marks, steps) if new else [])

    def take(self, reqs: Sequence[Any]) -> list[Sequence[int]]:
        """What the chunks of these requests are to carry: the counts since their last chunks."""
        same = reqs == self._reqs
        marks = self._marks if same else [req.specguard_mark for req in reqs]
        if same and self._batch and (not self._waiting or self._waiting.isdisjoint(marks)):
            counts = self._last()
            self._batch = []
            return counts
        self._spill()
        taken: list[Sequence[int]] = [mark.pending for mark in marks]
        for mark in marks:
            mark.pending = []
        self._waiting.difference_update(marks)
        return taken

    def _known(self, req: Any) -> Mark:  # noqa: ANN401 - the engine's own object
        try:
            mark = req.specguard_mark
        except AttributeError:
            mark = req.specguard_mark = self._mark(req)
        return cast("Mark", mark)

    def _turn_to(self, reqs: Sequence[Any]) -> bool:
        """Another batch; whether a request of it is new. The marks of the last one learn where it stands."""
        self._spill()
        for mark, steps, accepted in zip(self._marks, self._steps, self._accepted, strict=True):
            mark.steps = steps
            mark.accepted = accepted
        try:
            marks, new = [req.specguard_mark for req in reqs], False
        except AttributeError:
            marks, new = [self._known(req) for req in reqs], True
        # A list of our own: theirs may be another one by the time that its chunks go out.
        self._reqs, self._marks = [*reqs], marks
        self._keys, self._rooms = _columns(marks)
        self._steps = [mark.steps for mark in marks]
        self._accepted = [mark.accepted for mark in marks]
        self._stand = int.from_bytes(u32_column(self._steps), "little")
        self._sum = int.from_bytes(u32_column(self._accepted), "little")
        if len(self._waiting) > MAX_WAITING:
            self._waiting.intersection_update(marks)
        return new

    def _keep(self, grown: list[bool], counts: bytes) -> None:
        if self._keeps:
            self._batch, self._grown, self._counts = self._marks, grown, counts

    def _last(self) -> list[Sequence[int]]:
        """The last step as chunks carry it."""
        if not self._grown:
            return [_ALONE[count] for count in self._counts]
        counts = iter(self._counts)
        return [_ALONE[next(counts)] if grown else () for grown in self._grown]

    def _spill(self) -> None:
        """The last step's counts wait on the requests themselves."""
        if not self._batch:
            return
        for mark, counts in zip(self._batch, self._last(), strict=True):
            if counts:
                mark.pending += counts
                self._waiting.add(mark)
        self._batch = []


@lru_cache(maxsize=512)
def _each(number: int, rows: int) -> int:
    """A column that holds the same in each row, as one number."""
    return int.from_bytes(number.to_bytes(U32_BYTES, "little") * rows, "little")


def _counts(grown: int, rows: int) -> bytes:
    """A column's growth in bytes, a row each. Raises where one shrank, or grew by more than a byte holds."""
    if grown & _each(_MORE_THAN_A_BYTE, rows):
        raise ValueError
    return grown.to_bytes(U32_BYTES * rows, "little")[::U32_BYTES]


def _unsaid(marks: list[Mark], steps: list[int]) -> list[Mark]:
    """Those that nobody has heard of: new, and without a step that would tell of them."""
    new = [mark for mark, count in zip(marks, steps, strict=True) if not count and not mark.said]
    for mark in new:
        mark.said = True
    return new


def _rows(moved: list[Mark], steps: list[int], counts: bytes, new: list[Mark]) -> Rows:
    keys, rooms = _columns(moved + new)
    column = u32_column(steps) + bytes(U32_BYTES * len(new))
    return Rows(keys, rooms, column, counts + bytes([NO_STEP]) * len(new))


def _columns(marks: list[Mark]) -> tuple[bytes, bytes]:
    """Keys and rooms; there are rooms for all of a batch or for none."""
    keys = b"".join([mark.key for mark in marks])
    return keys, b"".join([mark.room for mark in marks]) if marks and marks[0].room else b""
