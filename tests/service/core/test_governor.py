import pytest

from service.core.governor import BRAKE_FLOOR, AbortMode, Governor


@pytest.mark.parametrize("mode", list(AbortMode))
def test_nothing_is_closed_before_decodes_first_item(mode: AbortMode) -> None:
    governor = Governor(mode)
    assert governor.drains(1.0, first_item_seen=False)
    assert governor.drains(1.0, first_item_seen=False, client_gone=True)


def test_by_default_a_bad_stream_runs_out_unread() -> None:
    assert Governor().drains(1.0, first_item_seen=True)


def test_a_client_that_left_ends_its_stream_whatever_the_mode() -> None:
    assert not Governor(AbortMode.DRAIN).drains(1.0, first_item_seen=True, client_gone=True)


def test_an_abort_storm_is_braked_and_the_brake_lets_go() -> None:
    governor = Governor(AbortMode.CLOSE)
    closed = [not governor.drains(1.0, first_item_seen=True) for _ in range(20)]
    assert sum(closed) == BRAKE_FLOOR
    assert not governor.drains(62.0, first_item_seen=True)


def test_a_busy_fleet_may_abort_one_in_twenty() -> None:
    governor = Governor(AbortMode.CLOSE)
    for _ in range(1000):
        governor.opened(1.0)
    assert sum(not governor.drains(1.5, first_item_seen=True) for _ in range(200)) == 50
    assert repr(governor) == "<Governor close closed=50 of 1000 streams>"
