"""Faults on the real KV of a running request: bytes of the decode pool are overwritten, outputs never.

    nan         two whole rows of the target's K and V become NaN, every layer
    random      normal noise over all target pages of the request: mean 0, the standard deviation of the
                request's own rows, per layer and for K and V apart
    zero        all target pages of the request become zero
    swap        the request's target rows become those of another live request, position by position, up to
                the shorter of the two: a slot that two requests share
    swap_both   the same in the target's and in the draft's pool

Pages are those that hold tokens when the fault strikes; what the request writes later is its own. After a
swap the donor is the live request nearest in length (a nearly equal length is what makes the leak fluent),
with another prompt, and not itself touched. While none lives the fault waits.

Who is hit, by what and when is drawn from (seed, worker, request number) alone, so two runs that send the
same requests in the same order hit the same ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np

from replay.lab.kvpool import KVPool, Slot, pages_for
from replay.lab.model import PAGE_TOKENS, Floats
from replay.lab.speculation import RequestState

Kind = Literal["nan", "random", "zero", "swap", "swap_both"]
KINDS: tuple[Kind, ...] = get_args(Kind)

NAN_ROWS = 2
"""Rows of NaN, as in the real-engine capture; one is enough to make every later logit NaN."""

DEFAULT_RATE = 0.15
"""Share of requests that are hit unless told otherwise."""

DEFAULT_ONSET_TOKENS = (4, 24)
"""First and last answer token at which a fault strikes; answers have 32 to 97 tokens."""


class FaultSpecError(ValueError):
    """The client's: a fault plan that makes no sense."""


@dataclass(frozen=True, slots=True)
class Order:
    """One planned fault: strike once the answer has `at_token` tokens."""

    kind: Kind
    at_token: int
    seed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Which requests of a worker are hit."""

    mix: tuple[tuple[Kind, float], ...] = ()
    rate: float = DEFAULT_RATE
    onset_tokens: tuple[int, int] = DEFAULT_ONSET_TOKENS
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a rate outside 0 to 1, an onset that runs backwards, a seed that is none."""
        first, last = self.onset_tokens
        if not 0 <= self.rate <= 1:
            raise FaultSpecError(f"fault rate {self.rate} is not between 0 and 1")
        if not 1 <= first <= last:
            raise FaultSpecError(f"onset {first} to {last} is not a range of answer tokens")
        if self.seed < 0:
            raise FaultSpecError(f"seed {self.seed} is below 0")

    @classmethod
    def parse(cls, spec: str, **rest: object) -> Self:
        """Read `none`, a kind, or a weighted mix such as `nan:1,swap:0.5`."""
        return cls(mix=parse_mix(spec), **rest)  # type: ignore[arg-type]  # (the dataclass checks what it is given)

    @property
    def spec(self) -> str:
        """The mix as parse() reads it."""
        return ",".join(f"{kind}:{weight:g}" for kind, weight in self.mix) or "none"

    def draw(self, worker: int, request: int) -> Order | None:
        """Decide about one request by its number; always the same answer."""
        if not self.mix:
            return None
        seed = (self.seed, worker, request)
        rng = np.random.default_rng(seed)
        hit, onset, kind = (
            rng.random() < self.rate,
            rng.integers(*self.onset_tokens, endpoint=True),
            rng.random(),
        )
        return Order(self._pick(kind), int(onset), seed) if hit else None

    def _pick(self, at: float) -> Kind:
        total = sum(weight for _, weight in self.mix)
        for kind, weight in self.mix:
            at -= weight / total
            if at < 0:
                return kind
        return self.mix[-1][0]


def parse_mix(spec: str) -> tuple[tuple[Kind, float], ...]:
    """Read the text of a mix; a kind without a weight weighs 1."""
    if spec.strip() in {"none", ""}:
        return ()
    mix = tuple(_weighted(item.strip()) for item in spec.split(","))
    if len({kind for kind, _ in mix}) < len(mix):
        raise FaultSpecError(f"a fault kind comes twice in {spec!r}")
    return mix


def _weighted(item: str) -> tuple[Kind, float]:
    name, _, weight = item.partition(":")
    kind = next((kind for kind in KINDS if kind == name), None)
    if kind is None:
        raise FaultSpecError(f"unknown fault {name!r}; there are none, {', '.join(KINDS)}")
    try:
        value = float(weight or 1)
    except ValueError:
        raise FaultSpecError(f"the weight of {name} is not a number: {weight!r}") from None
    if not 0 < value < float("inf"):
        raise FaultSpecError(f"the weight of {name} is not above 0: {weight!r}")
    return kind, value


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
    """What a fault did: the pages it wrote into, and whose rows it put there."""

    pages: tuple[int, ...]
    donor_rid: str | None = None


def strike(order: Order, victim: Victim, live: Iterable[Victim], pool: KVPool) -> Touch | None:
    """Apply the fault now; nothing where it needs a donor and none lives."""
    rng = np.random.default_rng((*order.seed, 1))
    pages = victim.slot.pages[: pages_for(victim.target_rows)]
    match order.kind:
        case "nan":
            return _nan(victim, pool.target, rng)
        case "random":
            _noise(pool.target, pages, victim.target_rows, rng)
        case "zero":
            pool.target[:, :, list(pages)] = 0
        case "swap" | "swap_both":
            return _swap(victim, live, pool, draft_too=order.kind == "swap_both")
    return Touch(pages)


def _nan(victim: Victim, target: Floats, rng: np.random.Generator) -> Touch:
    rows = rng.choice(victim.target_rows, size=min(NAN_ROWS, victim.target_rows), replace=False)
    pages = [victim.slot.pages[row // PAGE_TOKENS] for row in rows]
    target[:, :, pages, rows % PAGE_TOKENS] = np.nan
    return Touch(tuple(sorted(set(pages))))


def _noise(target: Floats, pages: Sequence[int], rows: int, rng: np.random.Generator) -> None:
    index = list(pages)
    for layer in target:
        for side in layer:
            own = side[index].reshape(-1, *side.shape[2:])[:rows]
            side[index] = rng.normal(0, own.std(), side[index].shape)


def _swap(victim: Victim, live: Iterable[Victim], pool: KVPool, *, draft_too: bool) -> Touch | None:
    donor = _donor(victim, live)
    if donor is None:
        return None
    pages = _copy_rows(pool.target, donor.slot, victim.slot, min(donor.target_rows, victim.target_rows))
    if draft_too:
        _copy_rows(pool.draft, donor.slot, victim.slot, min(donor.draft_rows, victim.draft_rows))
    return Touch(pages, donor.rid)


def _donor(victim: Victim, live: Iterable[Victim]) -> Victim | None:
    def distance(other: Victim) -> tuple[int, str]:
        return abs(other.target_rows - victim.target_rows), other.rid

    fit = [
        other
        for other in live
        if other.rid != victim.rid and not other.touched and other.prompt != victim.prompt
    ]
    return min(fit, key=distance, default=None)


def _copy_rows(side: Floats, source: Slot, destination: Slot, rows: int) -> tuple[int, ...]:
    at = np.arange(rows)
    ours, theirs = np.array(destination.pages)[at // PAGE_TOKENS], np.array(source.pages)[at // PAGE_TOKENS]
    side[:, :, ours, at % PAGE_TOKENS] = side[:, :, theirs, at % PAGE_TOKENS]
    return destination.pages[: pages_for(rows)]
