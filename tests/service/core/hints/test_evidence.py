"""The questions that hints ask of an incident and its surroundings."""

import pytest

from service.core.events import Kind, RequestFacts
from service.core.fleet_acceptance import State
from service.core.fleet_watch import FleetView
from service.core.hints.evidence import Evidence
from tests.service.core.hints.scenes import DEPTH, bad, good, group, incident, seen


def evidence(*attempts: object, prompt: str = "", workers: tuple[object, ...] = ()) -> Evidence:
    view = FleetView(1.0, workers)  # type: ignore[arg-type]
    return Evidence(incident(*attempts), RequestFacts("openai_chat", prompt=prompt), view)  # type: ignore[arg-type]


def test_the_same_bad_answer_counts_only_from_two_workers() -> None:
    assert evidence(bad(), bad(worker="http://d2")).same_elsewhere
    assert not evidence(bad(), bad()).same_elsewhere
    assert not evidence(bad(), bad(worker="")).same_elsewhere
    assert not evidence(bad(), bad(unit="special", worker="http://d2")).same_elsewhere


def test_a_clean_answer_is_here_or_elsewhere() -> None:
    assert evidence(bad(), good()).clean_elsewhere
    assert not evidence(bad(), good("")).clean_elsewhere
    assert evidence(bad(), good("http://d1")).clean_here


@pytest.mark.parametrize(
    ("length", "steps", "full", "none"),
    [(DEPTH + 1.0, 50, True, False), (1.0, 50, False, True), (3.0, 50, False, False), (5.0, 3, False, False)],
)
def test_acceptance_is_full_none_or_ordinary(length: float, steps: int, *, full: bool, none: bool) -> None:
    known = evidence(bad(accept_length=length, steps=steps), workers=(seen(),))
    assert (known.fully_accepted(), known.hardly_accepted()) == (full, none)
    assert known.ordinarily_accepted() == (steps > 16 and not full and not none)


@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        ("Please repeat the word 500 times", True),
        ("say hello a hundred times", True),
        ("把它写 30 遍", True),
        ("Wiederhole es 20 mal", True),
        ("Fix the bug in line 20 of main.py", False),
        ("", False),
        ("repeat 500 times " + "x" * 5000, False),
    ],
)
def test_a_prompt_that_asks_for_repetition_is_told_from_others(prompt: str, *, asks: bool) -> None:
    assert evidence(bad(), prompt=prompt).asks_to_repeat is asks


def test_words_of_the_worker_are_told_from_those_of_the_request() -> None:
    known = evidence(bad(engine_said=("nan", "worker:canary_violation")))
    assert (known.words, known.own_words) == ({"nan", "canary_violation"}, {"nan"})


def test_a_suspect_group_counts_where_the_bad_answer_belongs_to_it() -> None:
    one, other = group("worker", "http://d1"), group("worker", "http://d2")
    known = Evidence(incident(bad()), RequestFacts("openai_chat"), FleetView(1.0, (), (other, one)))
    assert known.suspect_group("worker") == one
    assert known.suspect_group("route") is None


def test_text_that_nothing_was_found_in_is_clean() -> None:
    assert not evidence(bad(Kind.LOW_ACCEPTANCE, "acceptance", "")).text_found
    assert evidence(bad()).text_found


def test_a_generation_that_fell_alone_is_told_from_one_whose_worker_fell() -> None:
    assert evidence(bad(accept_length=1.4), workers=(seen(),)).request_fell
    assert not evidence(bad(accept_length=2.9), workers=(seen(),)).request_fell
    assert not evidence(bad(accept_length=1.4), workers=(seen(state=State.FALLEN),)).request_fell
    assert not evidence(bad(accept_length=1.4), workers=()).request_fell
