from math import isnan, nan

import pytest

from service.core.baseline import Baselines, key_of
from service.core.events import Drafter
from service.core.fleet import ENOUGH_STREAMS, Fleet

URL = "http://decode-1"


def fleet() -> Fleet:
    known = Fleet()
    known.know(URL, Drafter.MODEL, 4)
    return known


def test_a_stranger_is_known_for_nothing() -> None:
    facts = Fleet().worker("http://nobody")
    assert (facts.drafter, facts.draft_tokens) == (Drafter.UNKNOWN, -1)
    assert isnan(facts.accept_floor)


def test_a_floor_is_learned_from_enough_clean_streams() -> None:
    known = fleet()
    for place in range(ENOUGH_STREAMS):
        assert isnan(known.worker(URL).accept_floor)
        known.clean_stream(URL, 1 + 4 * (0.5 + 0.4 * place / ENOUGH_STREAMS), steps=20)
    assert known.worker(URL).accept_floor == pytest.approx(0.5)


@pytest.mark.parametrize(("length", "steps"), [(nan, 20), (1.0, 3)])
def test_streams_that_say_too_little_teach_nothing(length: float, steps: int) -> None:
    known = fleet()
    for _ in range(2 * ENOUGH_STREAMS):
        known.clean_stream(URL, length, steps)
    assert isnan(known.worker(URL).accept_floor)


def test_what_was_learned_stays_when_the_worker_describes_itself_again() -> None:
    known = fleet()
    for _ in range(ENOUGH_STREAMS):
        known.clean_stream(URL, 3.0, steps=20)
    known.know(URL, Drafter.MODEL, 4)
    assert known.worker(URL).accept_floor == pytest.approx(0.5)
    known.forget(URL)
    assert isnan(known.worker(URL).accept_floor)
    assert known.urls() == ()
    assert repr(known) == "<Fleet 0 workers>"


def test_a_calibration_holds_for_workers_known_before_and_after() -> None:
    baselines = Baselines()
    for worker in ("http://a", "http://b"):
        for _ in range(60):
            baselines.learn(key_of("m", worker, 3, 0.8, grammar=False), [(3, 2)] * 80)
    fleet = Fleet()
    fleet.know("http://a", Drafter.MODEL, 3)
    fleet.calibrate(baselines)
    fleet.know("http://b", Drafter.MODEL, 3)
    fleet.know("http://c", Drafter.MODEL, 5)
    for url in ("http://a", "http://b"):
        anchors = fleet.worker(url).anchors
        assert anchors is not None
        assert anchors.of(0.8, grammar=False)
    assert fleet.worker("http://c").anchors is None
