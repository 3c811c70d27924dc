"""Real acceptance under real KV faults, through the fleet's judge: loud faults are named, quiet ones are not.

`fault_steps.json`: accepted drafts of each verify step after the fault (SmolLM2-135M, a model drafts four,
greedy; one small model and large faults: enough for the plumbing and its blind spots, not for thresholds).
"""

import json
from pathlib import Path
from random import Random

import pytest

from service.core.events import Attempt, RequestFacts, WorkerFacts
from service.core.fleet_acceptance import BASELINE, Acceptance, State
from service.core.fleet_watch import LOOK_S, SAMPLE_STEPS, FleetWatch, Reason

FAULTS: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "telemetry" / "fault_steps.json").read_text()
)
WORKERS = ("http://d1", "http://d2", "http://d3")
ASKED = RequestFacts("openai_chat", "m")


class Day:
    """Three workers that answer the same prompts, one of them with a fault in every answer."""

    def __init__(self) -> None:
        self.watch = FleetWatch()
        self._random = Random(7)
        self._now = 0.0

    def looks(self, times: int, kind: str) -> None:
        for _ in range(times):
            self._now += LOOK_S
            for worker in WORKERS:
                self._answer(worker, kind if worker == WORKERS[0] else "none")
            self.watch.look(self._now, [WorkerFacts(url) for url in WORKERS], {})

    def _answer(self, worker: str, kind: str) -> None:
        """Streams that make one sample."""
        steps = 0
        while steps < SAMPLE_STEPS:
            series = [int(digit) for digit in self._random.choice(FAULTS[kind])]
            length = 1 + sum(series) / len(series)
            attempt = Attempt("r", worker, 200, steps=len(series), accept_length=length)
            self.watch.over(attempt, ASKED, "default", self._now)
            steps += len(series)

    def states(self) -> list[State]:
        return [view.state for one in self.watch.view.workers for view in one.acceptance]


@pytest.fixture
def day() -> Day:
    day = Day()
    day.looks(40, "none")
    assert day.states() == [State.NO_EVIDENCE] * 3
    return day


@pytest.mark.parametrize("kind", ["nan_one", "zero_all"])
def test_a_loud_fault_is_named_on_its_worker_alone(day: Day, kind: str) -> None:
    day.looks(30, kind)
    assert {one.url: one.suspect for one in day.watch.view.workers} == {
        WORKERS[0]: (Reason.ACCEPTANCE,),
        WORKERS[1]: (),
        WORKERS[2]: (),
    }


@pytest.mark.parametrize("kind", ["other_all_both", "other_page"])
def test_a_quiet_fault_leaves_no_evidence_in_telemetry(day: Day, kind: str) -> None:
    """Another request's KV, valid as it is: every answer is wrong, and acceptance as ever."""
    day.looks(200, kind)
    assert day.states() == [State.NO_EVIDENCE] * 3


def test_clean_days_name_nobody(day: Day) -> None:
    day.looks(600, "none")
    assert not any(one.suspect for one in day.watch.view.workers)


def thinned(random: Random, left: float) -> float:
    """A sample of real steps whose mean accept length is this share of what it was: drafts lost at random."""
    digits = [int(digit) for series in FAULTS["none"] for digit in series]
    length = 1 + sum(digits) / len(digits)
    kept = (left * length - 1) / (length - 1)
    steps = random.choices(digits, k=SAMPLE_STEPS)
    return 1 + sum(random.random() < kept for step in steps for _ in range(step)) / SAMPLE_STEPS


@pytest.mark.parametrize(("left", "within"), [(0.5, 5), (0.7, 8), (0.8, 60), (0.9, 0)])
def test_the_further_acceptance_falls_the_sooner_it_is_seen_and_a_tenth_is_let_be(
    left: float, within: int
) -> None:
    for seed in range(4):
        random, acceptance, seen = Random(seed), Acceptance("metrics"), 0
        for sample in range(BASELINE + (within or 200)):
            share = 1.0 if sample < BASELINE else left
            acceptance.see("w", "m", thinned(random, share), sample * LOOK_S)
            if acceptance.views()[0].state is State.FALLEN:
                seen = sample + 1 - BASELINE
                break
        assert (0 < seen <= within) if within else seen == 0
