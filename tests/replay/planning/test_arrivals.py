"""Arrivals: continuous times, and families that stay whole whatever is done to the load."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replay.planning.arrivals import (
    families,
    in_order,
    scaled,
    slices,
    spread_ties,
    superpose,
    thin,
    tied,
)
from replay.trace import TraceRequest


def _traffic(sessions: int = 20, turns: int = 3) -> list[TraceRequest]:
    return in_order(
        TraceRequest(id=f"{s}.{t}", at_s=s * 5 + t * 7, session=str(s), turn=t, blocks=(s, t))
        for s in range(sessions)
        for t in range(turns)
    )


@given(st.lists(st.integers(0, 8), min_size=1, max_size=30), st.sampled_from(["uniform", "poisson"]))
def test_ties_are_spread_within_their_own_step_of_the_grid(grid: list[int], how: str) -> None:
    traffic = [TraceRequest(id=str(at), at_s=at_s) for at, at_s in enumerate(sorted(grid))]
    spread = spread_ties(traffic, "uniform" if how == "uniform" else "poisson", 1)
    assert [one.id for one in spread] == [one.id for one in traffic]
    times = [one.at_s for one in spread]
    assert times == sorted(times)
    if len(set(grid)) > 1:
        assert tied(spread) == 0
        after = dict(pairwise(sorted(set(grid))))
        for old, new in zip(traffic, spread, strict=True):
            assert old.at_s <= new.at_s < after.get(int(old.at_s), float("inf"))


def test_ties_may_be_left_as_they_are() -> None:
    traffic = [TraceRequest(id=str(at), at_s=3.0) for at in range(4)]
    assert spread_ties(traffic, "none", 1) == traffic
    assert tied(traffic) == 3


def test_a_family_is_what_sessions_parents_and_groups_tie_together() -> None:
    traffic = [
        TraceRequest(id="a", at_s=0, session="s"),
        TraceRequest(id="b", at_s=1, parent="a"),
        TraceRequest(id="c", at_s=2, group="g", parent="b"),
        TraceRequest(id="d", at_s=3, group="g"),
        TraceRequest(id="e", at_s=4),
        TraceRequest(id="s", at_s=5),
    ]
    named = families(traffic)
    assert len({*named[:4]}) == 1
    assert len({*named}) == 3


def test_thinning_keeps_whole_families_and_about_the_share() -> None:
    kept = thin(_traffic(400), 0.25, 3)
    assert set(Counter(one.session for one in kept).values()) == {3}
    assert 60 < len(kept) / 3 < 140
    assert kept[0].at_s == 0


def test_copies_multiply_the_load_with_names_and_prefixes_of_their_own() -> None:
    laid = superpose(_traffic(), 3, 3)
    assert len(laid) == len({one.id for one in laid}) == 180
    gaps: dict[str, list[float]] = {one.session: [] for one in laid}
    for one in laid:
        gaps[one.session].append(one.at_s)
    assert all(abs(times[-1] - times[0] - 14) < 1e-9 for times in gaps.values())
    first = {one.blocks for one in laid if "~" not in one.id}
    assert not first & {one.blocks for one in laid if "~" in one.id}


def test_slices_hold_everything_once_and_cut_no_family() -> None:
    parts = slices(_traffic(), 4)
    assert sorted(one.id for part in parts for one in part) == sorted(one.id for one in _traffic())
    assert [len(part) for part in parts] == [15] * 4
    assert all(part[0].at_s == 0 for part in parts)
    seen = [{one.session for one in part} for part in parts]
    assert sum(map(len, seen)) == len(set.union(*seen))


def test_load_divides_times_or_only_when_sessions_begin() -> None:
    part = _traffic(2)
    assert scaled(part, 2, "arrivals") == [one.at_s / 2 for one in part]
    due = dict(zip([one.id for one in part], scaled(part, 5, "sessions"), strict=True))
    assert (due["0.2"] - due["0.0"], due["1.0"], due["1.2"] - due["1.0"]) == (14, 1, 14)
