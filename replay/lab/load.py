"""The load on the lab as a function of a seed: when requests come, where they go, how long a prefill takes.

    service time   Erlang-4 with the given mean, times 10 for 8 requests in 100: what a few long contexts do
                   to a prefill queue (reference figures of the first races)
    arrivals       Poisson
    prefill worker chosen at random, as a router does that does not look at queues

Every draw is a hash of (seed, request number, what it is for), so a worker, a client and the simulator that
know the seed know the same numbers without talking, in whatever order things happen. The hash is splitmix64
(Steele, Lea and Flood, OOPSLA 2014), on arrays of numbers at once.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]
Reals = NDArray[np.float64]
Integers = NDArray[np.int64]

STAGES = 4
"""Exponential stages of one service time: a coefficient of variation of one half, tail aside."""

TAIL_SHARE = 0.08
TAIL_FACTOR = 10.0

_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_MANTISSA_BITS = 53

# What a draw is for: each use has a stream of its own.
_ARRIVAL, _WORKER, _PROMPT, _TAIL, _BACKLOG, _STAGE = range(1, 7)


def uniforms(seed: int, stream: int, numbers: Numbers) -> Reals:
    """Draw one number strictly between 0 and 1 for each request number."""
    offset = _mixed(np.array([seed], np.uint64) * _STRIDE + np.uint64(stream))
    bits = _mixed(numbers * _STRIDE + offset) >> np.uint64(64 - _MANTISSA_BITS)
    return np.asarray((bits + 0.5) * 2.0**-_MANTISSA_BITS)


def _mixed(x: Numbers) -> Numbers:
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        x = (x ^ (x >> shift)) * multiplier
    return x ^ (x >> _SHIFTS[2])


@dataclass(frozen=True, slots=True)
class PrefillTime:
    """How long a prefill takes on a real engine; a mean of 0 is as fast as the lab computes."""

    mean_s: float = 0.0
    tail_share: float = TAIL_SHARE
    tail_factor: float = TAIL_FACTOR
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no time and no share."""
        if not 0 <= self.mean_s <= 3600:  # noqa: PLR2004 (an hour a prefill is a stopped clock)
            raise ValueError(f"prefill time {self.mean_s} is not between 0 and 3600 seconds")
        if not 0 <= self.tail_share <= 1 or not 1 <= self.tail_factor <= 1000:  # noqa: PLR2004
            raise ValueError("the tail's share is between 0 and 1, its factor between 1 and 1000")
        if self.seed < 0:
            raise ValueError(f"seed {self.seed} is below 0")

    @property
    def expected_s(self) -> float:
        """Mean over all requests, the long ones included."""
        return self.mean_s * (1 + self.tail_share * (self.tail_factor - 1))

    @property
    def second_moment(self) -> float:
        """Mean of the square, in s^2."""
        return self.mean_s**2 * (1 + 1 / STAGES) * (1 + self.tail_share * (self.tail_factor**2 - 1))

    def draw(self, rooms: Numbers) -> Reals:
        """Return the service time of each room, in seconds."""
        stages = sum(-np.log(uniforms(self.seed, _STAGE + at, rooms)) for at in range(STAGES))
        long = uniforms(self.seed, _TAIL, rooms) < self.tail_share
        return np.asarray(self.mean_s / STAGES * stages * np.where(long, self.tail_factor, 1.0))

    def of(self, room: int) -> float:
        """Return the service time of one room."""
        return float(self.draw(np.array([room], np.uint64))[0]) if self.mean_s else 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """One stretch of load: `utilisation` is the share of time that a prefill worker is busy."""

    requests: int
    utilisation: float
    prefill_workers: int
    prefill: PrefillTime
    prompts: int
    """How many prompts there are to choose from."""
    first_room: int = 0
    part: int = 0
    parts: int = 1
    """One of so many parts, whose queues at the beginning are spread evenly over their steady state."""

    def __post_init__(self) -> None:
        """Refuse a load that never ends or never begins."""
        if self.requests < 1 or self.prefill_workers < 1 or self.prompts < 1:
            raise ValueError("a load needs requests, prefill workers and prompts")
        if not 0 < self.utilisation < 1:
            raise ValueError(f"utilisation {self.utilisation} is not between 0 and 1")
        if not 0 <= self.part < self.parts:
            raise ValueError(f"part {self.part} of {self.parts}")

    @property
    def rate_per_s(self) -> float:
        """Requests a second over all prefill workers."""
        return self.utilisation * self.prefill_workers / self.prefill.expected_s

    @property
    def mean_wait_s(self) -> float:
        """Mean time in a prefill queue, after Pollaczek and Khinchine."""
        busy = self.utilisation
        return busy / (1 - busy) * self.prefill.second_moment / (2 * self.prefill.expected_s)


@dataclass(frozen=True, slots=True)
class Plan:
    """The requests of one load, in the order of their coming."""

    at_s: Reals
    worker: Integers
    prompt: Integers
    room: Numbers
    service_s: Reals
    backlog_s: Reals
    """Work in each prefill queue at the beginning, from its steady state: no warm-up is needed."""


def plan(load: Load) -> Plan:
    """Draw a load; the prefill time's seed decides."""
    room = np.arange(load.requests, dtype=np.uint64) + np.uint64(load.first_room)
    seed = load.prefill.seed
    gaps = -np.log(uniforms(seed, _ARRIVAL, room)) / load.rate_per_s
    return Plan(
        at_s=np.cumsum(gaps),
        worker=_below(uniforms(seed, _WORKER, room), load.prefill_workers),
        prompt=_below(uniforms(seed, _PROMPT, room), load.prompts),
        room=room,
        service_s=load.prefill.draw(room),
        backlog_s=_backlog(load),
    )


def _backlog(load: Load) -> Reals:
    """Give each queue its share of the steady state: empty as often as the worker idles, else exponential.

    Queues under heavy load move slowly, so a block sees little of their range. Strata instead of chance for
    where they begin take most of that luck out of a curve.
    """
    queues = load.prefill_workers
    order = np.argsort(uniforms(load.prefill.seed, _BACKLOG, np.arange(queues * load.parts, dtype=np.uint64)))
    mine = order[load.part * queues : (load.part + 1) * queues]
    u, busy = (mine + 0.5) / (queues * load.parts), load.utilisation
    return np.where(u < busy, -np.log(u / busy) * load.mean_wait_s / busy, 0.0)


def _below(u: Reals, count: int) -> Integers:
    return np.floor(u * count).astype(np.int64)
