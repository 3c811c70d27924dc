"""A fault changes real bytes of its victim's KV, in the pages that it names and in no other."""

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.lab.faults import KINDS, FaultPlan, FaultSpecError, Kind, Order, Victim, parse_mix, strike
from replay.lab.kvpool import KVPool, PoolShape, Slot, make_memory, pages_for
from replay.lab.model import PAGE_TOKENS, Shape
from replay.lab.speculation import RequestState

TARGET = Shape(layers=3, width=8, heads=2, hidden=8, previous_at=0, second_at=1, second_width=0)
DRAFT = Shape(layers=1, width=4, heads=1, hidden=4, previous_at=0, second_at=0, second_width=0)
SHAPE = PoolShape(TARGET, DRAFT, pages=16)

all_kinds = pytest.mark.parametrize("kind", KINDS)


def make_pool() -> KVPool:
    fd = make_memory(SHAPE, "test")
    pool = KVPool(fd, SHAPE)
    os.close(fd)
    rng = np.random.default_rng(0)
    pool.target[:] = rng.normal(size=pool.target.shape)
    pool.draft[:] = rng.normal(size=pool.draft.shape)
    return pool


def victim(rid: str, pages: tuple[int, ...], tokens: int, first: int) -> Victim:
    """A request with that many tokens; `first` sets its prompt apart."""
    state = RequestState([first, *range(tokens - 1)], 20, pages, pages, draft_done=tokens - 3)
    return Victim(rid, state, Slot(pages))


OURS = victim("ours", (9, 2, 7, 4), tokens=40, first=1)
NEAR = victim("near", (0, 1, 3, 5), tokens=38, first=2)
FAR = victim("far", (6, 8, 10, 11), tokens=60, first=3)


def changed_pages(pool: KVPool, before: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> set[int]:
    differs = ~((pool.target == before) | (np.isnan(pool.target) & np.isnan(before)))
    return set(np.flatnonzero(differs.any(axis=(0, 1, 3, 4, 5))).tolist())


@all_kinds
def test_only_the_pages_that_are_named_change_and_all_of_them_do(kind: Kind) -> None:
    pool = make_pool()
    target, draft = pool.target.copy(), pool.draft.copy()
    touch = strike(Order(kind, 4, (0, 0, 1)), OURS, [OURS, NEAR, FAR], pool)
    assert touch is not None
    assert set(touch.pages) == changed_pages(pool, target)
    assert set(touch.pages) <= {9, 2, 7}
    assert np.array_equal(pool.draft, draft) is (kind != "swap_both")


@pytest.mark.parametrize("kind", ["random", "zero", "swap"])
def test_the_whole_written_slot_is_hit_in_every_layer_keys_and_values(kind: Kind) -> None:
    pool = make_pool()
    before = pool.target.copy()
    strike(Order(kind, 4, (0, 0, 1)), OURS, [OURS, NEAR], pool)
    rows = 37  # the shorter of the two has so many rows with a token behind them
    for row in range(rows):
        page, at = OURS.slot.pages[row // PAGE_TOKENS], row % PAGE_TOKENS
        assert (pool.target[:, :, page, at] != before[:, :, page, at]).any(axis=(2, 3)).all()


def test_nan_rows_are_nan_in_every_layer_and_lie_on_tokens() -> None:
    pool = make_pool()
    touch = strike(Order("nan", 4, (0, 0, 1)), OURS, [OURS], pool)
    assert touch is not None
    hit = np.isnan(pool.target).all(axis=(0, 1, 4, 5))
    assert hit.sum() == 2
    assert np.isnan(pool.target).sum() == 2 * 3 * 2 * 2 * 4
    for page, row in np.argwhere(hit):
        assert OURS.slot.pages.index(page) * PAGE_TOKENS + row < OURS.target_rows


def test_noise_has_the_spread_of_the_layer_that_it_replaces() -> None:
    pool = make_pool()
    for layer in range(3):
        pool.target[layer, 0] *= 10.0**layer
    strike(Order("random", 4, (0, 0, 1)), OURS, [OURS], pool)
    for layer in range(3):
        spread = pool.target[layer, 0][list(OURS.slot.pages[:3])].std()
        assert 0.7 < spread / 10.0**layer < 1.4
        assert 0.7 < pool.target[layer, 1][list(OURS.slot.pages[:3])].std() < 1.4


def test_zero_leaves_nothing_in_the_target_pages() -> None:
    pool = make_pool()
    strike(Order("zero", 4, (0, 0, 1)), OURS, [OURS], pool)
    assert not pool.target[:, :, list(OURS.slot.pages[: pages_for(OURS.target_rows)])].any()


@pytest.mark.parametrize("kind", ["swap", "swap_both"])
def test_a_swap_puts_the_donors_rows_at_the_same_positions(kind: Kind) -> None:
    pool = make_pool()
    before = pool.target.copy()
    touch = strike(Order(kind, 4, (0, 0, 1)), OURS, [FAR, OURS, NEAR], pool)
    assert touch is not None
    assert touch.donor_rid == "near"
    for row in range(37):
        at, page = row % PAGE_TOKENS, row // PAGE_TOKENS
        ours = pool.target[:, :, OURS.slot.pages[page], at]
        assert np.array_equal(ours, before[:, :, NEAR.slot.pages[page], at])
    assert np.array_equal(pool.target[:, :, 7, 6:], before[:, :, 7, 6:])
    assert np.array_equal(pool.target[:, :, list(NEAR.slot.pages)], before[:, :, list(NEAR.slot.pages)])


def test_a_swap_of_both_moves_the_drafts_rows_that_both_have() -> None:
    pool = make_pool()
    before = pool.draft.copy()
    strike(Order("swap_both", 4, (0, 0, 1)), OURS, [OURS, NEAR], pool)
    assert np.array_equal(pool.draft[:, :, [9, 2]], before[:, :, [0, 1]])
    assert np.array_equal(pool.draft[:, :, 7, :3], before[:, :, 3, :3])
    assert np.array_equal(pool.draft[:, :, 7, 3:], before[:, :, 7, 3:])


@pytest.mark.parametrize(
    "others",
    [[], [OURS], [replace(NEAR, touched=True)], [victim("twin", (0, 1, 3), tokens=40, first=1)]],
    ids=["nobody", "only itself", "a touched one", "the same prompt"],
)
def test_without_a_fit_donor_a_swap_touches_nothing(others: list[Victim]) -> None:
    pool = make_pool()
    before = pool.target.copy()
    assert strike(Order("swap", 4, (0, 0, 1)), OURS, others, pool) is None
    assert np.array_equal(pool.target, before)


@given(st.integers(0, 9), st.integers(0, 3), st.integers(0, 200))
def test_a_draw_depends_on_seed_worker_and_number_alone(seed: int, worker: int, number: int) -> None:
    plan = FaultPlan(parse_mix("nan,swap:2"), rate=0.5, onset_tokens=(3, 9), seed=seed)
    order = plan.draw(worker, number)
    assert order == plan.draw(worker, number)
    if order is not None:
        assert 3 <= order.at_token <= 9
        assert order.kind in {"nan", "swap"}


def test_rate_and_weights_are_kept_in_the_long_run() -> None:
    plan = FaultPlan(parse_mix("nan:1,zero:3"), rate=0.2, seed=4)
    drawn = [order for number in range(4000) if (order := plan.draw(0, number))]
    assert 0.17 < len(drawn) / 4000 < 0.23
    assert 0.68 < sum(order.kind == "zero" for order in drawn) / len(drawn) < 0.82


def test_two_workers_are_not_hit_in_step() -> None:
    plan = FaultPlan(parse_mix("nan"), rate=0.5)
    assert [plan.draw(0, at) is None for at in range(40)] != [plan.draw(1, at) is None for at in range(40)]


def test_rates_at_the_ends_mean_never_and_always() -> None:
    assert not any(FaultPlan(parse_mix("nan"), rate=0).draw(0, at) for at in range(50))
    assert all(FaultPlan(parse_mix("nan"), rate=1).draw(0, at) for at in range(50))
    assert FaultPlan.parse("none", rate=1).draw(0, 0) is None


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("nan:1,zero:0.5", "nan:1,zero:0.5"),
        ("swap_both", "swap_both:1"),
        ("none", "none"),
        (" nan , zero ", "nan:1,zero:1"),
    ],
)
def test_a_mix_reads_back_what_it_prints(spec: str, text: str) -> None:
    plan = FaultPlan.parse(spec)
    assert plan.spec == text
    assert parse_mix(plan.spec) == plan.mix


@pytest.mark.parametrize(
    "spec", ["nann", "nan:x", "nan:0", "nan:-1", "nan:inf", "nan,nan", "nan,,zero", "nan:nan"]
)
def test_a_mix_that_makes_no_sense_is_refused_by_name(spec: str) -> None:
    with pytest.raises(FaultSpecError):
        parse_mix(spec)


@pytest.mark.parametrize(
    "wrong", [{"rate": 1.5}, {"rate": -0.1}, {"onset_tokens": (5, 4)}, {"onset_tokens": (0, 4)}]
)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(FaultSpecError):
        FaultPlan.parse("nan", **wrong)
