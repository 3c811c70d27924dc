from typing import Any

import numpy as np
import pytest

from replay.bench import joint
from replay.bench.guarded import Seen
from replay.lab.canary import TextClass
from replay.lab.corruption import Fault
from replay.lab.tasks import KINDS, sample
from replay.lab.tokenizer import FIXED
from service.core.events import Level, Policy


@pytest.fixture(scope="module")
def figures() -> dict[str, object]:
    faults = [Fault("nan"), Fault("random", "draft"), Fault("zero", "both")]
    return joint.measure(2, faults=faults, onsets=(8,), calibration=0)


def test_silence_is_acted_upon_in_every_setting(figures: dict[str, dict[str, dict[str, int]]]) -> None:
    row = figures["by_fault"]["nan@target"]
    assert row["struck"] == row["wrong"] == row["usual"] == row["all"] == row["calibrated"] > 0


def test_a_fault_of_the_draft_makes_no_answer_wrong(figures: dict[str, dict[str, dict[str, int]]]) -> None:
    assert figures["by_fault"]["random@draft"]["wrong"] == 0
    assert figures["recall"]["all"]["verdicts_on_right"] == 0


def test_what_goes_out_past_the_first_wrong_token_is_counted_by_policy() -> None:
    seen = {
        policy: Seen(Level.CORRUPT, "loop", "", tokens)
        for policy, tokens in ((Policy.OBSERVE, 90), (Policy.PROTECT, 40), (Policy.STRICT, 0))
    }
    case = joint.Case(Fault("zero"), TextClass.LOOP, wrong=True, bad_from=30, by_setting={}, by_policy=seen)
    assert joint._delivered([case]) == {
        "loop": {
            "observe": {"p50": 60, "p99": 60},
            "protect": {"p50": 10, "p99": 10},
            "strict": {"p50": 0, "p99": 0},
        }
    }


RNG = np.random.default_rng(3)
TASKS = tuple(sample(RNG, KINDS[0]) for _ in range(3))


def answer(words: int) -> list[int]:
    """Its own, which goes on with so many words of the donor's."""
    own, donor, _ = TASKS
    theirs = [token for token in donor.answer_ids if token >= len(FIXED)]
    return [*own.answer_ids[:10], *theirs[:words]]


@pytest.mark.parametrize(
    ("words", "expected"), [(joint.LEAK_WORDS - 1, joint.FEW_WORDS), (joint.LEAK_WORDS, joint.LEAK)]
)
def test_a_leak_is_eight_words_of_another_in_a_row(words: int, expected: str) -> None:
    assert joint.became(Fault("swap"), TextClass.LEAK, answer(words), TASKS) == expected


def test_a_fluent_answer_whose_kv_was_right_again_is_told_apart() -> None:
    assert joint.became(Fault("zero"), TextClass.FLUENT, answer(3), TASKS) == "fluent"
    healed = Fault("zero", transient=True)
    assert joint.became(healed, TextClass.FLUENT, answer(3), TASKS) == joint.HEALED
    assert joint.became(healed, TextClass.LOOP, answer(3), TASKS) == "loop"
    assert {"fluent", joint.HEALED, "loop"} < set(joint.CLASSES)


def test_every_answer_is_in_one_class(figures: dict[str, Any]) -> None:
    assert sum(row["struck"] for row in figures["by_text"].values()) == figures["struck"]
