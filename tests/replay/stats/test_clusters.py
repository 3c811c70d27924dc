"""Clusters: incidents, the exact permutation of blocks, and a level that clustering cannot break."""

from itertools import permutations, product
from math import isclose

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.stats.clusters import (
    Event,
    design_effect,
    dispersion,
    incidents,
    permutation,
    permutation_trend,
)
from replay.stats.exact import Rate
from replay.stats.ratio import contrast


def _sizes(events: list[Event], window_s: float = 1.0) -> list[int]:
    return [len(group) for group in incidents(events, window_s)]


def test_events_of_one_worker_within_the_window_are_one_incident() -> None:
    events = [Event(str(at), 0, at / 2, "d0") for at in range(5)]
    assert _sizes(events) == [5]
    assert _sizes(events, 0.4) == [1] * 5


def test_workers_blocks_and_time_part_incidents() -> None:
    events = [
        Event("a", 0, 0.0, "d0"),
        Event("b", 0, 0.1, "d1"),
        Event("c", 1, 0.2, "d0"),
        Event("d", 0, 9.0, "d0"),
    ]
    assert _sizes(events) == [1, 1, 1, 1]


def test_a_session_or_a_prompt_is_one_incident_however_long_it_takes() -> None:
    events = [
        Event("a", 0, 0.0, "d0", "s", "p"),
        Event("b", 0, 50.0, "d1", "s", "q"),
        Event("c", 0, 99.0, "d2", "t", "q"),
    ]
    assert _sizes(events) == [3]


def test_unknown_workers_are_taken_for_one() -> None:
    assert _sizes([Event("a", 0, 0.0), Event("b", 0, 0.5)]) == [2]


def test_the_design_effect_is_that_of_the_sizes() -> None:
    assert design_effect([4, 4, 4], []) == 4
    assert design_effect([1, 1, 6], []) == 38 / 8
    assert design_effect([], []) == 1


def test_a_spread_that_chance_does_not_make_is_taken_for_clustering() -> None:
    spread, p = dispersion([12, 0, 0, 12, 0, 0])
    assert spread > 9
    assert p < 1e-6
    assert design_effect([1] * 24, [12, 0, 0, 12, 0, 0]) == spread
    assert dispersion([1, 2]) == (1.0, 1.0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6))
def test_the_permutation_is_the_sum_over_all_deals(rounds: list[tuple[int, int]]) -> None:
    observed = sum(high - low for high, low in rounds)
    deals = list(product((1, -1), repeat=len(rounds)))
    hits = sum(
        sum(sign * (h - lo) for sign, (h, lo) in zip(deal, rounds, strict=True)) >= observed for deal in deals
    )
    found = permutation([(Rate(high, 100), Rate(low, 100)) for high, low in rounds])
    assert isclose(found, hits / len(deals), rel_tol=1e-9)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=3))
def test_the_permuted_trend_is_the_sum_over_all_deals(rounds: list[tuple[int, int, int]]) -> None:
    def score(deals: tuple[tuple[int, ...], ...]) -> int:
        return sum(rank * count for deal in deals for rank, count in enumerate(deal))

    every = list(product(*(list(permutations(counts)) for counts in rounds)))
    hits = sum(score(deals) >= score(tuple(rounds)) for deals in every)
    assert isclose(permutation_trend(rounds), hits / len(every), rel_tol=1e-9)


def test_single_events_dealt_by_shares_are_the_conditional_test() -> None:
    rounds = [(Rate(1, 200), Rate(0, 100))] * 5 + [(Rate(0, 200), Rate(1, 100))]
    assert isclose(permutation(rounds), contrast(Rate(5, 1200), Rate(1, 600)).p, rel_tol=1e-9)


def test_clusters_of_four_do_not_make_the_permutation_cry_wolf_as_they_do_the_plain_test() -> None:
    """Equal rates, three clusters an arm on average, sizes geometric with a mean of 4, twelve rounds."""
    rng, runs, rounds = np.random.default_rng(6), 1_000, 12
    clusters = rng.poisson(3 / rounds, (runs, rounds, 2))
    sizes = rng.negative_binomial(np.maximum(clusters, 1), 0.25) + clusters
    counts = np.where(clusters > 0, sizes, 0)
    plain = permuted = 0
    for run in counts:
        high, low = int(run[:, 0].sum()), int(run[:, 1].sum())
        plain += contrast(Rate(high, 30_000), Rate(low, 30_000)).p <= 0.05
        permuted += permutation([(Rate(h, 2_500), Rate(lo, 2_500)) for h, lo in run.tolist()]) <= 0.05
    assert plain / runs > 0.15
    assert permuted / runs <= 0.05
