"""Events that come together: incidents, the permutation of whole blocks, and what clustering costs.

One poisoned page or one bad worker makes several bad answers. Taken for independent, clusters of four make a
test at 5 % cry wolf in a quarter of all runs. Three remedies:

    incidents     events of one block that share a worker within a window, a session or a prompt, count once
    permutation   in each round every level ran one block, in an order drawn by lot: if load does not matter,
                  the blocks' counts may be dealt to the levels of their round in any way. That holds however
                  events cluster within a block. The distribution of the statistic over all deals is a
                  convolution over rounds: exact, and no sampling.
    effect        sum of size^2 / sum of size over incidents (Kish's design effect for clusters that are hit
                  whole): so many times fewer independent requests carry the same information

Where levels of a round had unequal numbers of answers (timeouts), two levels are dealt by their shares; deals
of more levels take blocks as equal.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np
from scipy.special import chdtrc

from replay.stats.exact import Rate
from replay.stats.trend import Series, tail

OVERDISPERSED = 0.05
"""Below this p the spread of counts over blocks is taken for clustering that the window did not see."""

FEWEST = 10
"""Events below which a spread says nothing."""


@dataclass(frozen=True, slots=True)
class Event:
    """One bad answer, and what it may have in common with others; "" is nothing known."""

    id: str
    block: int
    at_s: float
    worker: str = ""
    session: str = ""
    prompt: str = ""


def incidents(events: Iterable[Event], window_s: float) -> list[list[Event]]:
    """Events in groups, in the order of their coming; workers that nobody named are taken for one."""
    ordered = sorted(events, key=lambda event: (event.at_s, event.id))
    root = list(range(len(ordered)))

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    for one, other in _links(ordered, window_s):
        root[find(other)] = find(one)
    groups: dict[int, list[Event]] = defaultdict(list)
    for place, event in enumerate(ordered):
        groups[find(place)].append(event)
    return sorted(groups.values(), key=lambda group: group[0].at_s)


def _links(ordered: Sequence[Event], window_s: float) -> Iterator[tuple[int, int]]:
    by_worker: dict[Hashable, list[int]] = defaultdict(list)
    by_name: dict[Hashable, list[int]] = defaultdict(list)
    for place, event in enumerate(ordered):
        by_worker[event.block, event.worker].append(place)
        if event.session:
            by_name[event.block, "session", event.session].append(place)
        if event.prompt:
            by_name[event.block, "prompt", event.prompt].append(place)
    for places in by_worker.values():
        for one, other in pairwise(places):
            if ordered[other].at_s - ordered[one].at_s <= window_s:
                yield one, other
    for places in by_name.values():
        yield from pairwise(places)


def design_effect(sizes: Sequence[int], counts: Sequence[int]) -> float:
    """How many requests are worth one: by the incidents' sizes, or by the counts' spread over like blocks."""
    by_size = sum(size * size for size in sizes) / sum(sizes) if sizes else 1.0
    spread, p = dispersion(counts)
    return max(1.0, by_size, spread if p < OVERDISPERSED else 1.0)


def dispersion(counts: Sequence[int]) -> tuple[float, float]:
    """Variance over mean of counts of like blocks, and how probable more of it is by chance (chi squared)."""
    total, freedom = sum(counts), len(counts) - 1
    if total < FEWEST or freedom < 1:
        return 1.0, 1.0
    mean = total / len(counts)
    squares = sum((count - mean) ** 2 for count in counts) / mean
    return squares / freedom, float(chdtrc(freedom, squares))


def permutation(rounds: Sequence[tuple[Rate, Rate]]) -> float:
    """The p of "the high level has more", (high, low) of each round dealt by their shares of the trials."""
    null, statistic = np.ones(1), 0
    for high, low in rounds:
        excess = int(high.events - low.events)
        share = high.trials / (high.trials + low.trials)
        if excess == 0:
            continue
        place = np.zeros(2 * abs(excess) + 1)
        place[-1], place[0] = share, 1 - share  # who has more of the two is the lot's choice
        null = np.convolve(null, place)
        statistic += excess + abs(excess)
    return tail(null, statistic)


def permutation_trend(rounds: Sequence[Sequence[int]]) -> float:
    """The p of "more with every level", counts of each round dealt to its levels; lowest level first."""
    null, statistic = np.ones(1), 0
    for counts in rounds:
        null = np.convolve(null, _deals(tuple(counts)))
        statistic += _score(counts)
    return tail(null, statistic)


def _deals(counts: tuple[int, ...]) -> Series:
    """The distribution of a round's score over all deals."""
    scores = [_score(deal) for deal in permutations(counts)]
    return np.bincount(scores) / len(scores)


def _score(counts: Sequence[int]) -> int:
    return sum(rank * count for rank, count in enumerate(counts))
