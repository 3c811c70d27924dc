from math import nan

import pytest

from service.core.anchors import Anchors
from service.core.baseline import ENOUGH, Baselines, key_of
from service.core.commoncause import STREAMS
from service.core.events import Drafter, RequestFacts
from service.core.fleet import REFRESH, Fleet

URL = "http://decode-1"
GREEDY = RequestFacts(dialect="test", model="m", temperature=0.0)
WARM = RequestFacts(dialect="test", model="m", temperature=0.8)


def fleet() -> Fleet:
    known = Fleet()
    known.know(URL, Drafter.MODEL, 4)
    return known


def learned(known: Fleet, length: float, request: RequestFacts = WARM, steps: int = 20) -> Anchors | None:
    """Its anchors after so many clean streams of this accept length."""
    for _ in range(REFRESH):
        known.clean_stream(URL, request, length, steps)
    return known.worker(URL).anchors


def test_a_stranger_is_known_for_nothing() -> None:
    facts = Fleet().worker("http://nobody")
    assert (facts.drafter, facts.draft_tokens, facts.anchors) == (Drafter.UNKNOWN, -1, None)


def test_live_streams_are_held_to_what_clean_ones_of_their_kind_have_shown() -> None:
    known = fleet()
    learned(known, 4.4, GREEDY)
    anchors = learned(known, 3.0, WARM)
    assert REFRESH > ENOUGH
    assert anchors is not None
    assert 0.25 < anchors.of("m", 0.8, grammar=False)[0] < 0.8
    assert anchors.of("m", 0.0, grammar=False)[0] > anchors.of("m", 0.8, grammar=False)[0]
    assert anchors.of("another", 0.8, grammar=False) == ()


@pytest.mark.parametrize(("length", "steps"), [(nan, 20), (1.0, 3)])
def test_streams_that_say_too_little_teach_nothing(length: float, steps: int) -> None:
    assert learned(fleet(), length, steps=steps) is None


def test_a_worker_that_an_alert_stands_against_teaches_nothing() -> None:
    known = fleet()
    known.freeze([URL])
    assert learned(known, 3.0) is None
    known.freeze([])
    assert learned(known, 3.0) is not None


def test_what_was_learned_stays_when_the_worker_describes_itself_again() -> None:
    known = fleet()
    before = learned(known, 3.0)
    known.know(URL, Drafter.NGRAM, 4)
    assert known.worker(URL).anchors is before
    assert known.worker(URL).drafter is Drafter.NGRAM
    known.know(URL, Drafter.MODEL, 2)
    assert known.worker(URL).anchors is None
    known.forget(URL)
    assert known.worker(URL).drafter is Drafter.UNKNOWN
    assert known.urls() == ()
    assert repr(known) == "<Fleet 0 workers>"


def test_a_calibration_holds_for_workers_known_before_and_after() -> None:
    baselines = Baselines()
    for worker in ("http://a", "http://b"):
        for _ in range(60):
            baselines.learn(key_of("m", worker, 3, 0.8, grammar=False), [(3, 2)] * 80)
    known = Fleet()
    known.know("http://a", Drafter.MODEL, 3)
    known.calibrate(baselines)
    known.know("http://b", Drafter.MODEL, 3)
    known.know("http://c", Drafter.MODEL, 5)
    for url in ("http://a", "http://b"):
        anchors = known.worker(url).anchors
        assert anchors is not None
        assert anchors.of("m", 0.8, grammar=False)
    assert known.worker("http://c").anchors is None


def test_a_draft_that_fails_everybody_is_told_once_and_silences_acceptance_there() -> None:
    known = fleet()
    told = [known.over(URL, low=True, found=False, accept_length=1.1) for _ in range(int(STREAMS) + 20)]
    assert sum(told) == 1
    assert known.worker(URL).draft_fault
    known.know(URL, Drafter.MODEL, 4)
    assert known.worker(URL).draft_fault


def test_the_fault_of_a_draft_lasts_while_it_refuses_and_ends_when_it_works() -> None:
    known = fleet()
    for _ in range(300):
        known.over(URL, low=True, found=False, accept_length=1.1)
    for _ in range(1000):  # the detector is silent now
        known.over(URL, low=False, found=False, accept_length=1.1)
    assert known.worker(URL).draft_fault
    for _ in range(1500):
        known.over(URL, low=False, found=False, accept_length=3.2)
    assert not known.worker(URL).draft_fault


def test_nobody_is_blamed_for_streams_of_strangers_or_without_steps() -> None:
    known = fleet()
    for _ in range(100):
        assert not known.over("http://nobody", low=True, found=False, accept_length=1.0)
        assert not known.over(URL, low=True, found=False, accept_length=nan)
    assert not known.worker(URL).draft_fault
