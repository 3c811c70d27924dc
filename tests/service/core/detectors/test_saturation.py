import random

from service.core.detectors.saturation import Saturation
from service.core.events import Channel, Finding, Kind, Level, Look, RequestFacts, Step, WorkerFacts
from tests.service.core.detectors.texts import RULES

RULE = next(detector for detector in RULES.detectors if isinstance(detector, Saturation))
LOOP = Finding("loop", Channel.TEXT, Kind.REPETITION, 2.5)
FULL = Step(3, 3)


def said(steps: list[Step]) -> float:
    state, found = RULE.start(RequestFacts(dialect="t"), WorkerFacts()), 0.0
    for step in steps:
        finding = RULE.look(state, Look(steps=(step,)))
        found = finding.log10_e if finding else found
    return found


def test_twenty_full_steps_are_evidence_and_ten_are_not() -> None:
    assert said([FULL] * 10) < 1
    assert said([FULL] * 30) >= 1.5


def test_evidence_is_bounded() -> None:
    assert said([FULL] * 5000) == RULE.most


def test_a_healthy_share_of_full_steps_is_none() -> None:
    rng = random.Random(1)
    steps = [FULL if rng.random() < 0.7 else Step(3, 1) for _ in range(3000)]
    assert said(steps) < 1


def test_merged_events_and_unknown_depths_do_not_count() -> None:
    assert said([Step(3, 7)] * 200) == 0
    assert said([Step(-1, 3)] * 200) == 0
    assert said([Step(0, 0)] * 200) == 0


def test_full_acceptance_alone_is_nothing_and_doubles_half_a_loop() -> None:
    full = Finding("saturation", Channel.TELEMETRY, Kind.REPETITION, 3.0)
    garbled = Finding("garble", Channel.TEXT, Kind.GARBLED, 1.6)
    fusion = RULES.fusion
    assert fusion.judge([full]).level is Level.CLEAN
    assert fusion.judge([LOOP]).level is Level.SUSPECT
    assert (fusion.judge([full, LOOP]).level, fusion.judge([full, LOOP]).kind) == (
        Level.CORRUPT,
        Kind.REPETITION,
    )
    assert fusion.judge([full, garbled]) == fusion.judge([garbled])
