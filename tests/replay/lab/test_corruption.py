"""A fault changes real bytes of its victim's KV: the rows, layers and pools that its name says, no other."""

import os
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from replay.lab import corruption
from replay.lab.corruption import (
    EXTENTS,
    PLACES,
    SOURCES,
    Fault,
    FaultSpecError,
    Touch,
    Victim,
    fault_named,
)
from replay.lab.kvpool import K, KVPool, PoolShape, Slot, V, make_memory
from replay.lab.model import PAGE_TOKENS, Shape
from replay.lab.speculation import RequestState

TARGET = Shape(layers=3, width=8, heads=2, hidden=8, previous_at=0, second_at=1, second_width=0)
DRAFT = Shape(layers=1, width=4, heads=1, hidden=4, previous_at=0, second_at=0, second_width=0)
SHAPE = PoolShape(TARGET, DRAFT, pages=16)


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
FREE = (12, 13, 14, 15)
MATRIX = [Fault(*cell) for cell in product(SOURCES, PLACES, EXTENTS, (False, True))]


def strike(name: str | Fault, pool: KVPool, live: list[Victim] | None = None) -> Touch | None:
    fault = name if isinstance(name, Fault) else fault_named(name)
    return corruption.strike(fault, (0, 0, 1), OURS, [OURS, NEAR] if live is None else live, pool, FREE)


def differs(now: NDArray[np.float32], before: NDArray[np.float32]) -> NDArray[np.bool_]:
    """[layer, k or v, page, row]: any number that is another one."""
    changed: NDArray[np.bool_] = (~((now == before) | (np.isnan(now) & np.isnan(before)))).any((-1, -2))
    return changed


def row_places(rows: int) -> set[tuple[int, int]]:
    return {(OURS.slot.pages[row // PAGE_TOKENS], row % PAGE_TOKENS) for row in range(rows)}


@pytest.mark.parametrize("fault", MATRIX, ids=lambda fault: fault.name)
def test_every_cell_of_the_matrix_touches_what_it_names_and_nothing_else(fault: Fault) -> None:
    pool = make_pool()
    befores = {"target": pool.target.copy(), "draft": pool.draft.copy()}
    touch = strike(fault, pool)
    assert touch is not None
    assert (touch.undo is not None) is fault.transient
    assert touch.donor_rid == ("near" if fault.source in {"swap", "torn"} else None)
    hit: set[int] = set()
    for model, rows in (("target", OURS.target_rows), ("draft", OURS.draft_rows)):
        changed = differs(getattr(pool, model), befores[model])
        places = {(int(page), int(row)) for _, _, page, row in np.argwhere(changed)}
        layers = {int(layer) for layer in np.argwhere(changed)[:, 0]}
        sides = {int(side) for side in np.argwhere(changed)[:, 1]}
        hit |= {page for page, _ in places}
        if fault.place not in {model, "both"}:
            assert not places
            continue
        assert places <= row_places(rows)
        count = {"target": 3, "draft": 1}[model]
        assert layers == set(range(count // 2 if fault.extent == "late" else 0, count))
        assert sides == ({V} if fault.source == "torn" else {K, V})
        if fault.extent == "rows":
            assert len(places) == 2
        if fault.extent == "page":
            assert len({page for page, _ in places}) == 1
    assert set(touch.pages) == hit


@pytest.mark.parametrize(
    "fault", [fault for fault in MATRIX if fault.transient], ids=lambda fault: fault.name
)
def test_a_transient_fault_leaves_no_trace_in_the_bytes(fault: Fault) -> None:
    pool = make_pool()
    target, draft = pool.target.copy(), pool.draft.copy()
    touch = strike(fault, pool)
    assert touch is not None
    assert touch.undo is not None
    touch.undo()
    assert np.array_equal(pool.target, target)
    assert np.array_equal(pool.draft, draft)


@pytest.mark.parametrize("fault", MATRIX, ids=lambda fault: fault.name)
def test_a_name_reads_back_as_the_fault(fault: Fault) -> None:
    assert Fault.parse(fault.name) == fault


def test_nan_rows_are_nan_in_every_layer() -> None:
    pool = make_pool()
    strike("nan", pool)
    assert np.isnan(pool.target).all(axis=(0, 1, 4, 5)).sum() == 2
    assert np.isnan(pool.target).sum() == 2 * 3 * 2 * 2 * 4


def test_noise_has_the_spread_of_the_layer_that_it_replaces() -> None:
    pool = make_pool()
    for layer in range(3):
        pool.target[layer, K] *= 10.0**layer
    strike("random", pool)
    for layer in range(3):
        assert 0.7 < pool.target[layer, K][[9, 2]].std() / 10.0**layer < 1.4
        assert 0.7 < pool.target[layer, V][[9, 2]].std() < 1.4


def test_zero_leaves_nothing_on_the_rows_with_tokens() -> None:
    pool = make_pool()
    strike("zero", pool)
    assert not pool.target[:, :, [9, 2]].any()
    assert not pool.target[:, :, 7, : 39 - 32].any()
    assert pool.target[:, :, 7, 39 - 32 :].all()


@pytest.mark.parametrize("kind", ["swap", "swap_both"])
def test_a_swap_puts_the_donors_rows_at_the_same_positions(kind: str) -> None:
    pool = make_pool()
    before, draft = pool.target.copy(), pool.draft.copy()
    touch = strike(kind, pool, [FAR, OURS, NEAR])
    assert touch is not None
    assert touch.donor_rid == "near"
    for row in range(37):
        at, page = row % PAGE_TOKENS, row // PAGE_TOKENS
        ours = pool.target[:, :, OURS.slot.pages[page], at]
        assert np.array_equal(ours, before[:, :, NEAR.slot.pages[page], at])
    assert np.array_equal(pool.target[:, :, 7, 6:], before[:, :, 7, 6:])
    assert np.array_equal(pool.target[:, :, list(NEAR.slot.pages)], before[:, :, list(NEAR.slot.pages)])
    if kind == "swap_both":
        assert np.array_equal(pool.draft[:, :, [9, 2]], draft[:, :, [0, 1]])
        assert np.array_equal(pool.draft[:, :, 7, :3], draft[:, :, 3, :3])


def test_torn_kv_keeps_its_own_keys() -> None:
    pool = make_pool()
    before = pool.target.copy()
    strike("torn", pool)
    assert np.array_equal(pool.target[:, K], before[:, K])
    assert np.array_equal(pool.target[:, V, 9], before[:, V, 0])


def test_stale_rows_are_what_free_pages_still_hold() -> None:
    pool = make_pool()
    pool.target[:, :, [12, 14]] = 0
    before = pool.target.copy()
    strike("stale", pool)
    assert np.array_equal(pool.target[:, :, 9], before[:, :, 13])
    assert np.array_equal(pool.target[:, :, 2], before[:, :, 15])


@pytest.mark.parametrize(
    "others",
    [[], [OURS], [replace(NEAR, touched=True)], [victim("twin", (0, 1, 3), tokens=40, first=1)]],
    ids=["nobody", "only itself", "a touched one", "the same prompt"],
)
def test_without_a_fit_donor_a_swap_touches_nothing(others: list[Victim]) -> None:
    pool = make_pool()
    before = pool.target.copy()
    assert strike("swap", pool, others) is None
    assert np.array_equal(pool.target, before)


def test_where_no_page_was_ever_used_nothing_is_stale() -> None:
    pool = make_pool()
    pool.target[:, :, list(FREE)] = 0
    assert strike("stale", pool) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("gremlin", "gremlin"),
        ("zero@moon", "moon"),
        ("zero@", "place"),
        ("zero/some", "some"),
        ("zero/page/late", "one extent"),
        ("zero/transient/transient", "one extent"),
    ],
)
def test_a_name_that_means_nothing_is_refused(text: str, named: str) -> None:
    with pytest.raises(FaultSpecError, match=named):
        Fault.parse(text)


def test_the_old_names_mean_what_they_meant() -> None:
    assert Fault.parse("swap_both") == Fault("swap", "both")
    assert Fault("swap", "both").name == "swap_both"
    assert Fault.parse("nan") == Fault("nan", "target", "rows")
    assert Fault.parse("nan/all/transient").name == "nan/all/transient"
