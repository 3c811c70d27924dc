import random
import re

import pytest

from service.core.detectors.stutter import Stutter, is_varied
from service.core.events import Finding, Kind, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from tests.service.core.detectors.texts import CODE, HEALTHY, RULES, deltas, judged, prose

RULE = next(detector for detector in RULES.detectors if isinstance(detector, Stutter))


def said(text: str, prompt: str = "", *, ended: bool = True) -> list[tuple[str, float]]:
    facts = RequestFacts(dialect="t", prompt=prompt)
    inspector, found = Inspector(facts, WorkerFacts(), [RULE], RULES.fusion), list[Finding]()
    for delta in deltas(text):
        inspector.read([delta], 0.0)
        found += [finding for finding in inspector.findings() if finding not in found]
    if ended:
        inspector.finish(1.0, clean=True)
        found += [finding for finding in inspector.findings() if finding not in found]
    return [(finding.unit, finding.log10_e) for finding in found]


def near_loop(words: int) -> str:
    """The lab's own: `reading reading added reading ...`, no two stretches alike."""
    rng = random.Random(1)
    return " ".join(rng.choice(["reading"] * 8 + ["added", "convert"]) for _ in range(words))


def test_a_near_loop_is_found_while_it_runs() -> None:
    found = said(prose(1, 40) + " " + near_loop(500), ended=False)
    assert found[-1] == ("poor", RULE.acts_log10)


def test_a_short_near_loop_is_a_second_witness_until_the_text_ends() -> None:
    text = prose(1, 40) + " " + near_loop(180)
    assert said(text, ended=False) == [("poor", RULE.witness_log10)]
    assert said(text)[-1] == ("poor", RULE.acts_log10)


def test_two_lines_in_turns_are_poor() -> None:
    rng = random.Random(2)
    lines = "".join(rng.choice(["the cat sat\n", "the cat ran\n", "a cat sat\n"]) for _ in range(40))
    assert judged(prose(3, 30) + "\n" + lines).kind is Kind.REPETITION


@pytest.mark.parametrize("times", [3, 4, 5, 6])
@pytest.mark.parametrize("language", ["en", "zh", "code"])
def test_a_stutter_echoes_every_unit(times: int, language: str) -> None:
    if language == "zh":
        text = HEALTHY["chinese"]
        units = [text[at : at + 2] for at in range(0, len(text), 2)]
    else:
        units = re.findall(r"\s*\w+|\s*[^\w\s]", prose(4, 60) if language == "en" else CODE)
    assert judged("".join(unit * times for unit in units)).kind is Kind.REPETITION


def test_one_word_that_is_most_of_them_is_a_stutter() -> None:
    text = "it is done done. done = done done and done done done done then done done so done done "
    assert [unit for unit, _ in said(prose(8, 4) + text * 2)] == ["one word"]


def test_the_same_short_lines_in_any_order_are_a_stutter() -> None:
    rng = random.Random(5)
    lines = [rng.choice(["Blue lamp on", "Blue lamp off", "Red lamp on", "Red lamp"]) for _ in range(30)]
    assert judged("\n\n".join(lines)).kind is Kind.REPETITION


def test_who_says_something_new_at_the_end_has_recovered() -> None:
    text = prose(6, 30) + " " + "done so done and done so " * 12
    assert said(text)
    assert not said(text + "Then they went home, slept well, and forgot about it until the next summer came.")


def test_what_was_asked_for_is_no_stutter() -> None:
    text = "yes no yes yes no " * 14
    assert said(text)
    assert not said(text, prompt="Write yes or no 70 times.")


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_text_does_not_stutter(case: str) -> None:
    assert said(HEALTHY[case]) == []


def test_a_glance_spares_varied_text_the_rest() -> None:
    rng = random.Random(7)
    varied = " ".join("".join(rng.choices("abcdefghij", k=5)) for _ in range(200))
    assert is_varied(varied.encode())
    assert not is_varied(near_loop(200).encode())
    assert is_varied(HEALTHY["chinese"].encode())
