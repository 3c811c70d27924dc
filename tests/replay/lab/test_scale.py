"""The scaled race is the event by event one: the same timeouts, and as many hits."""

from dataclasses import replace

import pytest

from replay.lab.load import Load, PrefillTime, plan
from replay.lab.scale import scale
from replay.lab.simulate import Engine, simulate
from replay.lab.slot import Race
from tests.replay.lab.test_simulate import ENGINE, RACE, planned

SITE = Engine(Race.UNFIXED, 1.0, 0.04, (4, 5), 4, 3, 4096, 0.01)


@pytest.mark.parametrize("utilisation", [0.3, 0.85])
def test_both_simulators_agree(utilisation: float) -> None:
    drawn = plan(Load(30_000, utilisation, 4, PrefillTime(1 / 60, seed=5), 2))
    events, scaled = simulate(drawn, SITE), scale(drawn, SITE)
    assert (scaled.timed_out, scaled.answered) == (events.timed_out, events.answered)
    assert len(scaled.hits) == pytest.approx(len(events.hits), rel=0.15)


def test_a_hand_made_race_has_its_victim() -> None:
    (hit,) = scale(RACE, ENGINE).hits
    assert (hit.victim, hit.writer) == (1, 0)
    assert hit.steps_done + hit.steps_left == 4


def test_who_comes_in_between_takes_the_slot_away() -> None:
    between = planned((0.0, 0, 1.55), (1.05, 0, 0.1), (1.1, 1, 0.1))
    assert scale(between, ENGINE).hits == ()


def test_a_protocol_that_acts_on_the_queues_is_refused() -> None:
    with pytest.raises(ValueError, match="only unfixed"):
        scale(RACE, replace(ENGINE, race=Race.FIXED))
