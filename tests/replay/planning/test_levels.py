"""Levels: rounds drawn by lot, and a return at the end."""

from replay.plan import RETURN, Arm
from replay.planning.levels import rounds

ARMS = [Arm(name=name) for name in ("idle", "busy", "peak")]


def test_every_round_runs_every_arm_once_and_the_end_returns() -> None:
    order = list(rounds(ARMS, 8, 1))
    for number in range(8):
        assert sorted(arm.name for at, arm in order if at == number) == ["busy", "idle", "peak"]
    assert (order[-1][0], order[-1][1].name) == (RETURN, "idle")


def test_the_order_is_drawn_and_hangs_on_the_seed() -> None:
    orders = {tuple(arm.name for at, arm in rounds(ARMS, 30, 1) if at == number) for number in range(30)}
    assert len(orders) == 6
    assert list(rounds(ARMS, 9, 1)) == list(rounds(ARMS, 9, 1)) != list(rounds(ARMS, 9, 2))
