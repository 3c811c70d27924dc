"""Which worker a retry may be pinned to, learned from answers.

smg takes `x-smg-target-worker: INDEX`, but nothing says which index is which worker, and indices shift when
workers come and go. So: ask for an index that leads elsewhere as far as we know, or for one not tried yet;
read from the answer who it was; believe the last answer. A router that does not know the header answers from
anywhere: after several contradictions in a row it is believed not to know it, and pins stop.

smg keeps one list of workers a model, each in an order of its own, so there is a page a model.
"""

from collections import OrderedDict
from typing import Final

CONTRADICTIONS_MAX: Final = 4
"""In a row. A single one is a shift of the indices; two workers and a coin would pass this once in 16."""
MODELS_MAX: Final = 64
"""Pages kept; clients choose the names of models, so the least used goes first."""


class PinPage:
    """One model's index -> worker URL, as far as answers have told."""

    __slots__ = ("_contradicted", "_last", "known")

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self._contradicted = 0
        self._last = -1  # the index chosen last, so that retries spread

    def __repr__(self) -> str:
        return f"<PinPage {len(self.known)} known, {'works' if self.works else 'unknown to the router'}>"

    @property
    def works(self) -> bool:
        return self._contradicted < CONTRADICTIONS_MAX

    def choose(self, safe: frozenset[str], size: int) -> int | None:
        """An index of `size` that should lead to one of these workers; None where no pin can help."""
        if not self.works or not safe:
            return None
        in_turn = [(self._last + 1 + step) % size for step in range(size)]
        known = (index for index in in_turn if self.known.get(index, "") in safe)
        untried = (index for index in in_turn if index not in self.known)
        pin = next(known, next(untried, None))
        if pin is not None:
            self._last = pin
        return pin

    def answered(self, pin: int, worker: str) -> None:
        """The answer to this pin came from this worker. A contradiction may have shifted every index."""
        before = self.known.get(pin)
        if before is not None and before != worker:
            self._contradicted += 1
            self.known.clear()
        elif before == worker:
            self._contradicted = 0
        self.known[pin] = worker


class PinBook:
    """All models' pages over one pool of workers."""

    __slots__ = ("_pages", "_pool")

    def __init__(self) -> None:
        self._pool: frozenset[str] = frozenset()  # workers that can be pinned: decode workers, or all
        self._pages: OrderedDict[str, PinPage] = OrderedDict()

    def __repr__(self) -> str:
        return f"<PinBook {len(self._pages)} models over {len(self._pool)} workers>"

    def page(self, model: str) -> PinPage:
        page = self._pages.setdefault(model, PinPage())
        self._pages.move_to_end(model)
        if len(self._pages) > MODELS_MAX:
            self._pages.popitem(last=False)
        return page

    def pool(self, urls: frozenset[str]) -> None:
        """The workers that are there now. Any change may have shifted every index."""
        if urls != self._pool:
            self._pool = urls
            self._pages.clear()

    def choose(self, model: str, avoid: frozenset[str]) -> int | None:
        """An index that should lead to none of these; None where no pin can help."""
        return self.page(model).choose(self._pool - avoid, len(self._pool))

    def answered(self, model: str, pin: int | None, worker: str) -> None:
        """A response came from this worker, asked for by this pin or by none."""
        if pin is not None and worker:
            self.page(model).answered(pin, worker)
