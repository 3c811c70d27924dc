"""A group that gives more bad answers than its peers is named; luck, and who is unknown, are not."""

from math import comb, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.events import CLEAN, Attempt, Cached, Judgement, Kind, Level
from service.core.fleet_rates import BUCKET_S, BUCKETS, GROUPS_MAX, Rate, Rates, fisher, groups_of

BAD = Judgement(Level.CORRUPT, Kind.GARBLED, "garble", 9.0)


def attempt(worker: str = "d1", prefill: str = "p1", *, bad: bool = False, host: int = 0) -> Attempt:
    judgement = BAD if bad else CLEAN
    return Attempt("r", worker, 200, judgement, prefill=prefill, cached=Cached(100, 50, host, 0))


def judged(*counts: tuple[Attempt, int], route: str = "default") -> dict[tuple[str, str], Rate]:
    """Rates by dimension and value, of so many generations like these."""
    rates = Rates()
    for one, times in counts:
        for _ in range(times):
            rates.over(one, "m", route, 0.0)
    return {(rate.dimension, rate.value): rate for rate in rates.judge(0.0)}


def test_a_bad_worker_is_named_and_its_peers_are_not() -> None:
    found = judged((attempt("d1"), 300), (attempt("d2"), 300), (attempt("d2", bad=True), 20))
    assert found["worker", "d2"].suspect
    assert found["worker", "d2"].p < 1e-4
    assert not found["worker", "d1"].suspect
    assert {value for (_, value), rate in found.items() if rate.suspect} == {"p1 -> d2", "d2"}


def test_a_bad_pair_is_named_where_neither_of_its_workers_alone_is() -> None:
    good = [(attempt(d, p), 200) for d in ("d1", "d2", "d3") for p in ("p1", "p2", "p3")]
    found = judged(*good, (attempt("d1", "p1", bad=True), 7))
    assert found["pair", "p1 -> d1"].suspect
    assert found["pair", "p1 -> d1"].p < found["worker", "d1"].p


def test_the_cache_tier_of_the_bad_answers_is_named() -> None:
    found = judged((attempt(), 400), (attempt(host=40), 40), (attempt(host=40, bad=True), 8))
    assert found["cache", "host"].suspect
    assert found["cache", "device"].bad == 0


def test_a_bad_route_is_named() -> None:
    rates = Rates()
    for number in range(200):
        rates.over(attempt(), "m", "chat", 0.0)
        rates.over(attempt(bad=number < 24), "m", "tools", 0.0)
    assert {rate.value for rate in rates.judge(0.0) if rate.suspect} == {"tools"}


def test_as_many_bad_answers_everywhere_name_nobody() -> None:
    found = judged(
        *[(attempt(f"d{n}", bad=bad), times) for n in range(4) for bad, times in ((True, 9), (False, 99))]
    )
    assert not any(rate.suspect for rate in found.values())


def test_two_bad_answers_name_nobody_however_rare_they_are() -> None:
    found = judged((attempt("d1"), 20_000), (attempt("d2", bad=True), 2))
    assert not found["worker", "d2"].suspect


def test_who_is_unknown_is_shown_and_never_suspected_nor_a_control() -> None:
    found = judged((attempt("", ""), 300), (attempt("", "", bad=True), 30), (attempt("d1", ""), 10))
    unknown = found["worker", "unknown"]
    assert (unknown.bad, unknown.total, unknown.suspect) == (30, 330, False)
    assert isnan(unknown.p)
    assert found["worker", "d1"].peers_total == 0
    assert isnan(found["worker", "d1"].p)
    assert found["pair", "unknown"].total == 340


def test_what_is_older_than_an_hour_is_forgotten() -> None:
    rates = Rates()
    rates.over(attempt(bad=True), "m", "r", 0.0)
    assert rates.judge(BUCKET_S * (BUCKETS - 1))[0].total == 1
    assert rates.judge(BUCKET_S * BUCKETS) == ()


def test_generations_that_come_in_another_order_than_they_ended_make_no_more_buckets() -> None:
    rates = Rates()
    for turn in range(100):
        rates.over(attempt(), "m", "r", BUCKET_S + (1.0 if turn % 2 else -1.0))
    assert len(rates._buckets) == 2
    assert next(rate for rate in rates.judge(BUCKET_S) if rate.dimension == "route").total == 100


def test_groups_are_bounded_however_clients_name_their_models() -> None:
    rates = Rates()
    for number in range(GROUPS_MAX * 2):
        rates.over(attempt(), f"model-{number}", "r", 0.0)
    found = rates.judge(0.0)
    assert len(found) <= GROUPS_MAX + 6
    assert sum(rate.total for rate in found if rate.dimension == "model") == GROUPS_MAX * 2


def test_every_generation_is_counted_once_in_each_dimension() -> None:
    groups = groups_of(attempt("d1", "p1", host=3), "m", "r")
    assert [group[0] for group in groups] == ["worker", "prefill", "pair", "cache", "model", "route"]
    assert ("cache", "m", "host") in groups


@given(
    bad=st.integers(0, 6), good=st.integers(0, 12), peers_bad=st.integers(0, 6), peers_good=st.integers(0, 12)
)
def test_the_test_is_fishers(bad: int, good: int, peers_bad: int, peers_good: int) -> None:
    total, peers, all_bad = bad + good, peers_bad + peers_good, bad + peers_bad
    ways = sum(
        comb(all_bad, k) * comb(good + peers_good, total - k) for k in range(bad, min(all_bad, total) + 1)
    )
    assert fisher(bad, total, peers_bad, peers) == pytest.approx(ways / comb(total + peers, total))


def test_many_groups_make_the_level_stricter() -> None:
    few = judged((attempt("d1"), 50), (attempt("d2", bad=True), 4), (attempt("d2"), 46))
    many = judged(
        (attempt("d1"), 50),
        (attempt("d2", bad=True), 4),
        (attempt("d2"), 46),
        *[(attempt(f"e{n}"), 1) for n in range(50)],
    )
    assert many["worker", "d2"].p >= few["worker", "d2"].p
