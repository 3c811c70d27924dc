"""Which worker a retry may be pinned to, learned from answers.

smg takes `x-smg-target-worker: INDEX`, but nothing says which index is which worker, and indices shift when
workers come and go. So: ask for an index that leads elsewhere as far as we know, or for one not tried yet;
read from the answer who it was; believe the last answer. A router that does not know the header answers from
anywhere: after several contradictions in a row it is believed not to know it, and pins stop.
"""

from typing import Final

CONTRADICTIONS_MAX: Final = 4
"""In a row. A single one is a shift of the indices; two workers and a coin would pass this once in 16."""


class PinBook:
    """Index -> worker URL, as far as answers have told."""

    __slots__ = ("_contradicted", "_known", "_last", "_pool")

    def __init__(self) -> None:
        self._pool: frozenset[str] = frozenset()  # workers that can be pinned: decode workers, or all
        self._known: dict[int, str] = {}
        self._contradicted = 0
        self._last = -1  # the index chosen last, so that retries spread

    def __repr__(self) -> str:
        state = "works" if self.works else "unknown to the router"
        return f"<PinBook {len(self._known)} of {len(self._pool)} known, {state}>"

    @property
    def works(self) -> bool:
        return self._contradicted < CONTRADICTIONS_MAX

    def pool(self, urls: frozenset[str]) -> None:
        """The workers that are there now. Any change may have shifted every index."""
        if urls != self._pool:
            self._pool, self._known, self._contradicted = urls, {}, 0

    def choose(self, avoid: frozenset[str]) -> int | None:
        """An index that should lead to none of these; None where no pin can help."""
        if not self.works or not self._pool - avoid:
            return None
        size = len(self._pool)
        in_turn = [(self._last + 1 + step) % size for step in range(size)]
        safe = (index for index in in_turn if self._known.get(index, "") in self._pool - avoid)
        untried = (index for index in in_turn if index not in self._known)
        pin = next(safe, next(untried, None))
        if pin is not None:
            self._last = pin
        return pin

    def answered(self, pin: int | None, worker: str) -> None:
        """A response came from this worker, asked for by this pin or by none."""
        if pin is None or not worker:
            return
        before = self._known.get(pin)
        if before is not None and before != worker:
            self._contradicted += 1
        elif before == worker:
            self._contradicted = 0
        self._known[pin] = worker
