"""What every detector of the registry promises, whichever comes next."""

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.config.rules import load_rules
from service.core.detectors import DETECTORS
from service.core.events import Drafter, Kind, Level, RequestFacts, WorkerFacts
from tests.service.core.detectors.texts import (
    CORRUPTED,
    HEALTHY,
    RULES,
    RULESET,
    inspect,
    judged,
    loop,
    prose,
)

BY_NAME = {detector.name: detector for detector in RULES.detectors}
STATE_BYTES = 4096


def test_the_shipped_rules_switch_every_detector_on() -> None:
    assert set(BY_NAME) == set(DETECTORS) - {"zai"}  # the public rule has a set of its own
    assert set(RULESET.fusion.weights) == set(BY_NAME)
    assert {detector.name for detector in load_rules("zai").detectors} == {"zai"}


@pytest.mark.parametrize("name", DETECTORS)
def test_numbers_live_in_the_rule_set_only(name: str) -> None:
    assert is_dataclass(DETECTORS[name])
    assert all(field.default is field.default_factory for field in fields(DETECTORS[name]))


@pytest.mark.parametrize("name", DETECTORS)
def test_idea_and_cost_are_documented(name: str) -> None:
    module = sys.modules[DETECTORS[name].__module__]
    assert "Cost:" in str(module.__doc__) or "us a token" in str(module.__doc__)
    assert DETECTORS[name].__doc__


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("case", [*HEALTHY, *CORRUPTED])
def test_the_same_stream_gets_the_same_findings(name: str, case: str) -> None:
    text = HEALTHY.get(case) or CORRUPTED[case][0]
    first, second = (inspect(text, detectors=[BY_NAME[name]]).findings() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_text_is_not_acted_on(case: str) -> None:
    assert judged(HEALTHY[case]).level < Level.CORRUPT


@pytest.mark.parametrize(
    "case", ["prose", "code", "chinese", "russian", "ipa", "hex dump", "emoji grid", "maze"]
)
def test_healthy_text_is_not_even_suspected(case: str) -> None:
    assert judged(HEALTHY[case]).level is Level.CLEAN


@pytest.mark.parametrize("case", CORRUPTED)
def test_corrupted_text_is_acted_on_by_its_kind(case: str) -> None:
    text, kind = CORRUPTED[case]
    judgement = judged(text)
    assert (judgement.level, judgement.kind) == (Level.CORRUPT, kind)


@pytest.mark.parametrize("case", [*HEALTHY, *CORRUPTED])
@given(cuts=st.lists(st.integers(1, 40), max_size=30))
def test_grouping_changes_neither_kind_nor_detector(case: str, cuts: list[int]) -> None:
    text = HEALTHY.get(case) or CORRUPTED[case][0]
    grouped, single = judged(text, cuts), judged(text, [1] * len(text))
    assert (grouped.level, grouped.signature) == (single.level, single.signature)


@pytest.mark.parametrize("case", CORRUPTED)
def test_one_big_batch_is_judged_as_single_events_are(case: str) -> None:
    text, kind = CORRUPTED[case]
    assert judged(text, [len(text)]).kind == kind


def walk(value: object, seen: set[int]) -> Iterator[object]:
    """Everything a state refers to, the request's own facts apart."""
    if id(value) in seen or isinstance(value, RequestFacts | WorkerFacts | type | Kind):
        return
    seen.add(id(value))
    yield value
    if isinstance(value, dict):
        inner: list[object] = [*value, *value.values()]
    elif isinstance(value, list | tuple | set):
        inner = [*value]
    else:
        inner = [getattr(value, slot, None) for slot in getattr(type(value), "__slots__", ())]
    for part in inner:
        if not isinstance(part, int | float | bool | None):
            yield from walk(part, seen)


@pytest.mark.parametrize("name", BY_NAME)
def test_state_stays_small_however_long_the_stream(name: str) -> None:
    long = prose(31, 2000) + CORRUPTED["many scripts"][0] * 20 + loop(32, 40, 60) + HEALTHY["chinese"] * 20
    worker = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3)
    inspector = inspect(long, [8] * 10_000, detectors=[BY_NAME[name]], worker=worker)
    assert not inspector.faults
    (state,) = inspector._choices[0].states
    assert sum(map(sys.getsizeof, walk(state, set()))) < STATE_BYTES


@pytest.mark.parametrize("name", BY_NAME)
def test_states_of_two_streams_share_nothing(name: str) -> None:
    alone = inspect(HEALTHY["prose"], detectors=[BY_NAME[name]]).findings()
    inspect(CORRUPTED["loop of nine words"][0], detectors=[BY_NAME[name]])
    assert inspect(HEALTHY["prose"], detectors=[BY_NAME[name]]).findings() == alone
