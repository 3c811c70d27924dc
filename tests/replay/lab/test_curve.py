"""The curve's plan is fair, its sums are right, and its verdict follows from the counts."""

from pathlib import Path

import msgspec
import pytest

from replay.lab import curve
from replay.lab.bank import make_bank
from replay.lab.curve import ARMS, PROMPTS, Arm, Settings, as_data, blocks, expect, full, judge, table
from replay.lab.journal import Journal
from replay.lab.racing import Tally
from replay.lab.serve import LabError
from replay.lab.slot import Race

SMALL = Settings(
    arms=(
        Arm("idle", Race.UNFIXED, 0.3, 60, 2),
        Arm("peak", Race.UNFIXED, 0.85, 61, 3),
        Arm("fixed", Race.FIXED, 0.85, 40, 2),
    )
)


def filled(settings: Settings, **corrupted: int) -> Journal:
    """A journal in which every request was answered and each arm had so many corrupted ones."""
    journal = Journal(None, settings.digest())
    for arm, block in blocks(settings):
        first = block.name.endswith("-0")
        tally = Tally(sent=block.load.requests, answered=block.load.requests, seconds=1.0)
        tally.corrupted = tally.touched = corrupted.get(arm, 0) if first else 0
        journal.add(block.name, tally)
    return journal


def test_blocks_share_out_the_requests_and_no_two_requests_share_a_room() -> None:
    cut = blocks(Settings())
    for arm in ARMS:
        mine = [block.load for name, block in cut if name == arm.name]
        assert sum(load.requests for load in mine) == arm.requests
        assert sorted(load.part for load in mine) == list(range(arm.blocks))
    loads = [block.load for _, block in cut]
    rooms = [range(load.first_room, load.first_room + load.requests) for load in loads]
    assert len({room for each in rooms for room in each}) == sum(arm.requests for arm in ARMS)


def test_arms_are_interleaved_and_the_order_is_the_seeds() -> None:
    names = [name for name, _ in blocks(Settings())]
    assert names == [name for name, _ in blocks(Settings())]
    assert names != [name for name, _ in blocks(Settings(seed=9))]
    assert names[:10] != ["peak"] * 10
    assert {"peak", "fixed"} <= set(names[: len(names) // 2])


def test_there_are_four_loads_without_the_fix_and_the_peak_with_it() -> None:
    assert [arm.race for arm in ARMS] == [Race.UNFIXED] * 4 + [Race.FIXED]
    loads = [arm.utilisation for arm in ARMS]
    assert loads == sorted(loads)
    assert loads[3] == loads[4]
    assert all(arm.requests > 4000 for arm in ARMS)
    assert all(arm.requests > 30_000 for arm in full(0).arms)


def test_a_result_is_the_sum_of_its_blocks() -> None:
    found = judge(SMALL, filled(SMALL, peak=9), 12.0)
    assert (found.idle_per_10k, found.fixed_per_10k, found.requests) == (0, 0, 161)
    assert found.peak_per_10k == pytest.approx(9 / 61 * 1e4, abs=0.01)
    assert found.p_peak_above_idle < 0.01
    peak = found.points[1]
    assert peak.low_per_10k < peak.per_10k < peak.high_per_10k
    assert peak.tally.answered == 61
    assert list(as_data(found))[:5] == [
        *("idle_per_10k", "peak_per_10k", "fixed_per_10k", "p_peak_above_idle", "requests"),
    ]
    assert msgspec.json.encode(found)
    assert len(table(found)) == 1 + 3 + 2


@pytest.mark.parametrize(
    ("corrupted", "held"), [({"peak": 30}, True), ({"peak": 1}, False), ({"peak": 30, "fixed": 1}, False)]
)
def test_the_verdict_needs_a_peak_that_is_shown_and_a_fix_without_one(
    corrupted: dict[str, int], *, held: bool
) -> None:
    assert judge(SMALL, filled(SMALL, **corrupted), 1.0).held is held


def test_an_arm_without_answers_is_no_result() -> None:
    journal = filled(SMALL)
    journal.done = {name: Tally(sent=5) for name in journal.done}
    with pytest.raises(LabError, match="not one request"):
        judge(SMALL, journal, 1.0)


def test_the_simulator_expects_nothing_at_idle_and_under_the_fix_and_something_at_peak() -> None:
    bank = make_bank(PROMPTS, curve.DEFAULT_SEED)
    expected = dict.fromkeys(("idle", "peak", "fixed"), 0.0)
    for arm, block in blocks(Settings()):
        if arm in expected and block.name.endswith(("-0", "-1", "-2", "-3")):
            expected[arm] += expect(block, bank, replicas=1)
    assert expected["idle"] == expected["fixed"] == 0
    assert expected["peak"] > 0


def test_a_finished_state_starts_no_lab(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    kept = Journal(state, SMALL.digest())
    for name, tally in filled(SMALL, peak=20).done.items():
        kept.add(name, tally)
    told: list[str] = []
    found = curve.run(SMALL, state, told.append)
    assert told == []
    assert found.peak_per_10k > 0
    assert found.seconds >= 7
