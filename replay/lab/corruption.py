"""What a fault does to KV: a source of wrong bytes, a place, an extent, and whether it passes.

    source   nan      NaN
             zero     zeros
             random   normal noise: mean 0, deviation of the request's own rows, per layer, K and V apart
             swap     the rows of another live request, position by position: a slot that two requests share
             torn     its V only, the K stay: a copy that was cut between the two
             stale    what free pages still hold of requests that have ended: a write that never came
    place    target, draft or both pools
    extent   all      every page that holds tokens
             rows     two rows
             page     one page
             late     all rows, the later half of the layers
    lasting  for good, or transient: after a few verify steps the right bytes are back

A fault is written SOURCE[@PLACE][/EXTENT][/transient]: `zero`, `swap@both`, `stale@both/page`,
`random/late/transient`. The place is target unless given, the extent all (of nan: rows). `swap_both` is the
old name of `swap@both`, and stays the name that the ledger knows it by.

Rows are those with tokens when the fault strikes; what the request writes later is its own. A donor is the
live request nearest in length (a nearly equal length is what makes a leak fluent), with another prompt, and
not itself touched.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray

from replay.lab.kvpool import Slot, V, pages_for
from replay.lab.model import PAGE_TOKENS, Floats
from replay.lab.speculation import RequestState

Source = Literal["nan", "zero", "random", "swap", "torn", "stale"]
Place = Literal["target", "draft", "both"]
Extent = Literal["all", "rows", "page", "late"]
SOURCES: tuple[Source, ...] = get_args(Source)
PLACES: tuple[Place, ...] = get_args(Place)
EXTENTS: tuple[Extent, ...] = get_args(Extent)

DONATED: frozenset[Source] = frozenset(("swap", "torn"))

FEW_ROWS = 2
"""Rows of the extent `rows`, as in the real-engine capture of NaN; one is enough to make all logits NaN."""

TRANSIENT_STEPS = 4
"""Verify steps after which a transient fault is undone: about 15 tokens."""

OLD_NAMES = {"swap_both": "swap@both"}


class FaultSpecError(ValueError):
    """The client's: a fault or a plan that makes no sense."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One cell of the matrix, without its onset."""

    source: Source
    place: Place = "target"
    extent: Extent = "all"
    transient: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a fault's name."""
        head, *marks = OLD_NAMES.get(text, text).split("/")
        name, at, place_name = head.partition("@")
        source = next((known for known in SOURCES if known == name), None)
        place = next((known for known in PLACES if known == (place_name if at else "target")), None)
        if source is None:
            known = ", ".join(("none", *SOURCES, *OLD_NAMES))
            raise FaultSpecError(f"unknown fault {name!r} in {text!r}; there are {known}")
        if place is None:
            raise FaultSpecError(f"unknown place {place_name!r} in {text!r}; there are {', '.join(PLACES)}")
        transient = "transient" in marks
        extents = [mark for mark in marks if mark != "transient"]
        if len(extents) > 1 or marks.count("transient") > 1:
            raise FaultSpecError(f"a fault has one extent: {text!r}")
        return cls(source, place, _extent(extents[0], text) if extents else _usual(source), transient)

    @property
    def name(self) -> str:
        """The name that parse() reads and the ledger shows."""
        place = "" if self.place == "target" else f"@{self.place}"
        extent = "" if self.extent == _usual(self.source) else f"/{self.extent}"
        text = f"{self.source}{place}{extent}{'/transient' if self.transient else ''}"
        return next((old for old, new in OLD_NAMES.items() if new == text), text)


def _usual(source: Source) -> Extent:
    return "rows" if source == "nan" else "all"


def _extent(name: str, text: str) -> Extent:
    extent = next((known for known in EXTENTS if known == name), None)
    if extent is None:
        raise FaultSpecError(
            f"unknown extent {name!r} in {text!r}; there are {', '.join(EXTENTS)}, transient"
        )
    return extent


@cache
def fault_named(name: str) -> Fault:
    """Read a name that has been checked before."""
    return Fault.parse(name)


class Pools(Protocol):
    """Both pools of a worker."""

    @property
    def target(self) -> Floats:
        """The target model's."""

    @property
    def draft(self) -> Floats:
        """The draft model's."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A running request as a fault sees it: its rows of KV."""

    rid: str
    state: RequestState
    slot: Slot
    touched: bool = False

    @property
    def target_rows(self) -> int:
        """Rows with a token behind them in the target pool: all tokens but the last."""
        return len(self.state.tokens) - 1

    @property
    def draft_rows(self) -> int:
        """Rows that the draft has written."""
        return self.state.draft_done

    @property
    def prompt(self) -> list[int]:
        """The prompt's tokens."""
        return self.state.tokens[: self.state.prompt_len]


@dataclass(frozen=True, slots=True)
class Touch:
    """What a fault did: the pages it wrote into, whose rows it put there, and how to take it back."""

    pages: tuple[int, ...]
    donor_rid: str | None = None
    undo: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class _Side:
    """One pool during a strike."""

    pool: Floats
    rows: int
    """Rows of the victim with tokens."""
    donor_rows: int


def strike(
    fault: Fault,
    seed: Sequence[int],
    victim: Victim,
    live: Iterable[Victim],
    pools: Pools,
    free: Sequence[int] = (),
) -> Touch | None:
    """Apply the fault now; nothing where it lacks a donor, or `free` pages that have been used."""
    rng = np.random.default_rng((*seed, 1))
    donor = find_donor(victim, live) if fault.source in DONATED else None
    former = [page for page in free if pools.target[0, 0, page].any()] if fault.source == "stale" else []
    if (fault.source in DONATED and donor is None) or (fault.source == "stale" and not former):
        return None
    hit: set[int] = set()
    undoing: list[Callable[[], None]] = []
    for side in _sides(fault, victim, donor, pools):
        layers = slice(len(side.pool) // 2 if fault.extent == "late" else 0, None)
        rows = _rows(fault, side, rng)
        places = _places(victim.slot, rows)
        block = side.pool[layers]
        undoing.append(_restorer(block, places))
        _write(fault.source, block, places, rng, _origin(donor, former, rows))
        hit.update(places[0].tolist())
    pages = tuple(page for page in victim.slot.pages if page in hit)
    return Touch(pages, donor.rid if donor else None, _all_of(undoing) if fault.transient else None)


Where = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Page and row in the page of each row of a request."""


def _sides(fault: Fault, victim: Victim, donor: Victim | None, pools: Pools) -> list[_Side]:
    target = _Side(pools.target, victim.target_rows, donor.target_rows if donor else 0)
    draft = _Side(pools.draft, victim.draft_rows, donor.draft_rows if donor else 0)
    return {"target": [target], "draft": [draft], "both": [target, draft]}[fault.place]


def _rows(fault: Fault, side: _Side, rng: np.random.Generator) -> NDArray[np.intp]:
    """Choose the rows: those with tokens, and with a donor's rows to take their place."""
    last = min(side.rows, side.donor_rows) if fault.source in DONATED else side.rows
    if fault.extent == "rows":
        return rng.choice(last, size=min(FEW_ROWS, last), replace=False).astype(np.intp)
    if fault.extent == "page":
        first = int(rng.integers(pages_for(last))) * PAGE_TOKENS
        return np.arange(first, min(first + PAGE_TOKENS, last))
    return np.arange(last)


def _places(slot: Slot, rows: NDArray[np.intp]) -> Where:
    return np.array(slot.pages)[rows // PAGE_TOKENS], rows % PAGE_TOKENS


def _origin(donor: Victim | None, former: Sequence[int], rows: NDArray[np.intp]) -> Where | None:
    """Return where other KV for these rows lies."""
    if donor is not None:
        return _places(donor.slot, rows)
    if former:
        return np.array(former)[rows // PAGE_TOKENS % len(former)], rows % PAGE_TOKENS
    return None


def _restorer(block: Floats, places: Where) -> Callable[[], None]:
    pages, rows = places
    saved = block[:, :, pages, rows].copy()

    def restore() -> None:
        block[:, :, pages, rows] = saved

    return restore


def _all_of(undoing: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def undo() -> None:
        for one in undoing:
            one()

    return undo


def _write(
    source: Source, block: Floats, places: Where, rng: np.random.Generator, origin: Where | None
) -> None:
    """Put the wrong bytes there: block[layer, k or v, page, row]."""
    pages, rows = places
    if source == "torn" and origin is not None:
        block[:, V, pages, rows] = block[:, V, origin[0], origin[1]]
    elif origin is not None:
        block[:, :, pages, rows] = block[:, :, origin[0], origin[1]]
    elif source == "random":
        own = block[:, :, pages, rows]
        spread = own.std(axis=(2, 3, 4), keepdims=True)
        block[:, :, pages, rows] = rng.standard_normal(own.shape, np.float32) * spread
    else:
        block[:, :, pages, rows] = np.nan if source == "nan" else 0


def find_donor(victim: Victim, live: Iterable[Victim]) -> Victim | None:
    """Return the fit live request nearest in length."""

    def distance(other: Victim) -> tuple[int, str]:
        return abs(other.target_rows - victim.target_rows), other.rid

    fit = [
        other
        for other in live
        if other.rid != victim.rid and not other.touched and other.prompt != victim.prompt
    ]
    return min(fit, key=distance, default=None)
