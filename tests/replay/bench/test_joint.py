import pytest

from replay.bench import joint
from replay.bench.guarded import Seen
from replay.lab.canary import TextClass
from replay.lab.corruption import Fault
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
