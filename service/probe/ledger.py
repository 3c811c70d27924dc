"""How many draft tokens each request of a batch accepted since the last look.

A request's `spec_verify_ct` and `spec_num_correct_drafts` grow by one verify step at a time; their growth
since the last look is that step. How far we have read, a `Mark` on the request itself knows, so nothing here
outlives a request. Most batches are the batch before, one step on: then whole columns are read, compared and
subtracted, and no request is looked at alone. Marks are brought up to date when the batch changes.

The counts of a step go through `bytes`: what is no small integer raises there, and what comes out again is
plain integers. Output is valid by construction, not by checking.
"""

from collections.abc import Callable, Sequence
from operator import sub
from typing import Any, Final

from service.probe.wire import NO_STEP, Rows

MAX_WAITING: Final = 4096
"""Marks of requests that end without a chunk stay behind; past this many only the batch's own are kept."""


class Mark:
    """How far one request has been read."""

    __slots__ = ("accepted", "key", "pending", "room", "steps")

    def __init__(self, key: bytes, room: bytes) -> None:
        self.key = key
        self.room = room  # b"" without disaggregation
        self.steps = 0
        self.accepted = 0  # draft tokens of these steps
        self.pending: list[int] = []  # counts that no chunk has carried yet


class Ledger:
    """The batch read last, in columns. `mark` makes the mark of a new request."""

    __slots__ = (
        "_accepted",
        "_fresh",
        "_keeps",
        "_keys",
        "_mark",
        "_marks",
        "_moved",
        "_rooms",
        "_steps",
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
        self._moved: list[Mark] = []  # whose counts of the last step are not pending yet: they are in _fresh
        self._fresh = b""
        self._waiting: set[Mark] = set()  # whose pending counts are not none

    def read(self, reqs: Sequence[Any]) -> Rows:
        """A row for each verify step since the last look, and for each request seen for the first time."""
        seen: list[Mark] = []
        try:
            marks = [req.specguard_mark for req in reqs]
        except AttributeError:
            marks = [self._known(req, seen) for req in reqs]
        steps = [req.spec_verify_ct for req in reqs]
        accepted = [req.spec_num_correct_drafts for req in reqs]
        if marks != self._marks:
            self._turn_to(marks)
        before, self._steps = self._steps, steps
        sums, self._accepted = self._accepted, accepted
        grown = list(map(sub, steps, before))
        if grown.count(1) == len(grown):
            counts = bytes(map(sub, accepted, sums))
            self._keep(marks, counts)
            return Rows(self._keys, self._rooms, steps, counts)
        # Steps that went by unseen (growth beyond one) are a gap; nothing is invented for them.
        places = [place for place, growth in enumerate(grown) if growth == 1]
        moved = [marks[place] for place in places]
        counts = bytes([accepted[place] - sums[place] for place in places])
        self._keep(moved, counts)
        fresh = [mark for mark, count in zip(marks, steps, strict=True) if not count and mark in seen]
        rows = moved + fresh
        told = [steps[place] for place in places] + [0] * len(fresh)
        return Rows(_keys(rows), _rooms(rows), told, counts + bytes([NO_STEP]) * len(fresh))

    def take(self, reqs: Sequence[Any]) -> list[list[int]]:
        """What the chunks of these requests are to carry: the counts since their last chunks."""
        marks = [req.specguard_mark for req in reqs]
        if marks == self._moved and (not self._waiting or self._waiting.isdisjoint(marks)):
            counts = [[count] for count in self._fresh]
            self._moved, self._fresh = [], b""
            return counts
        self._spill()
        taken = [mark.pending for mark in marks]
        for mark in marks:
            mark.pending = []
        self._waiting.difference_update(marks)
        return taken

    def _known(self, req: Any, seen: list[Mark]) -> Mark:  # noqa: ANN401 - the engine's own object
        mark = getattr(req, "specguard_mark", None)
        if not isinstance(mark, Mark):
            mark = req.specguard_mark = self._mark(req)
            seen.append(mark)
        return mark

    def _turn_to(self, marks: list[Mark]) -> None:
        """Another batch: the marks of the last one learn where it stands."""
        for mark, steps, accepted in zip(self._marks, self._steps, self._accepted, strict=True):
            mark.steps, mark.accepted = steps, accepted
        self._marks = marks
        self._keys, self._rooms = _keys(marks), _rooms(marks)
        self._steps = [mark.steps for mark in marks]
        self._accepted = [mark.accepted for mark in marks]
        if len(self._waiting) > MAX_WAITING:
            self._waiting.intersection_update(marks)

    def _keep(self, moved: list[Mark], counts: bytes) -> None:
        if self._moved:
            self._spill()
        if self._keeps:
            self._moved, self._fresh = moved, counts

    def _spill(self) -> None:
        """The last step's counts wait on the requests themselves."""
        for mark, count in zip(self._moved, self._fresh, strict=True):
            mark.pending.append(count)
        self._waiting.update(self._moved)
        self._moved, self._fresh = [], b""


def _keys(marks: list[Mark]) -> bytes:
    return b"".join([mark.key for mark in marks])


def _rooms(marks: list[Mark]) -> bytes:
    return b"".join([mark.room for mark in marks])
