"""Which requests of a worker are hit, by what and when.

A plan is a weighted mix of faults (`nan:1,swap@both:0.5`; see `replay.lab.corruption` for the names), the
share of requests that are hit, and the answer tokens between which a fault strikes. Bytes of the pools are
overwritten, outputs never. A fault that needs a donor, or former tenants of free pages, waits while there
is none.

Who is hit, by what and when is drawn from (seed, worker, request number) alone, so two runs that send the
same requests in the same order hit the same ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from replay.lab import corruption
from replay.lab.corruption import Fault, FaultSpecError, Pools, Touch, Victim, fault_named

__all__ = ["FaultPlan", "FaultSpecError", "Order", "Victim", "parse_mix", "strike"]

Kind = str
"""A fault's name, as the ledger shows it."""

KINDS: tuple[Kind, ...] = ("nan", "random", "zero", "swap", "swap_both")
"""The faults of the first slice; the matrix has many more."""

DEFAULT_RATE = 0.15
"""Share of requests that are hit unless told otherwise."""

DEFAULT_ONSET_TOKENS = (4, 24)
"""First and last answer token at which a fault strikes; answers have 32 to 97 tokens."""


@dataclass(frozen=True, slots=True)
class Order:
    """One planned fault: strike once the answer has `at_token` tokens."""

    kind: Kind
    at_token: int
    seed: tuple[int, ...]

    @property
    def fault(self) -> Fault:
        """What it does."""
        return fault_named(self.kind)


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
    kind = Fault.parse(name).name
    try:
        value = float(weight or 1)
    except ValueError:
        raise FaultSpecError(f"the weight of {name} is not a number: {weight!r}") from None
    if not 0 < value < float("inf"):
        raise FaultSpecError(f"the weight of {name} is not above 0: {weight!r}")
    return kind, value


def strike(
    order: Order, victim: Victim, live: Iterable[Victim], pools: Pools, free: Sequence[int] = ()
) -> Touch | None:
    """Carry an order out now; nothing where what it needs is not there yet."""
    return corruption.strike(order.fault, order.seed, victim, live, pools, free)
