"""A worker that falls below its own baseline is seen, whether alone or with its peers; noise is not."""

from math import exp, isnan
from random import Random

import pytest

from service.core.fleet_acceptance import (
    ALPHA,
    BASELINE,
    PEER_FRESH_S,
    WORKERS_MAX,
    Acceptance,
    AcceptanceView,
    FallDetector,
    State,
)

COLLAPSE = (4.487, 1.589, 4.331)
"""Accept length before a HiCache load-back, after it, and after a flush: as reported in sglang#32176."""


class Line:
    """Workers that are sampled each 15 s, with noise."""

    def __init__(self, *workers: str, noise: float = 0.06, seed: int = 1, memory: float = 0.0) -> None:
        self.acceptance = Acceptance("metrics")
        self.now = 0.0
        self._workers = workers
        self._random = Random(seed)
        self._noise = noise
        self._memory = memory
        self._last = dict.fromkeys(workers, 0.0)

    def run(self, samples: int, *lengths: float) -> int:
        """So many samples at these lengths, a worker each; the answer is when the first worker fell."""
        fell = -1
        for sample in range(samples):
            self.now += 15.0
            for worker, length in zip(self._workers, lengths, strict=True):
                fresh = self._random.gauss(0.0, self._noise * (1 - self._memory**2) ** 0.5)
                self._last[worker] = self._memory * self._last[worker] + fresh
                noisy = max(length * exp(self._last[worker]), 1.0)
                self.acceptance.see(worker, "m", noisy, self.now)
            if fell < 0 and self.states()[0] not in {State.NO_EVIDENCE, State.LEARNING}:
                fell = sample + 1
        return fell

    def views(self) -> tuple[AcceptanceView, ...]:
        return self.acceptance.views()

    def states(self) -> list[State]:
        return [view.state for view in self.views()]


def test_the_load_back_collapse_is_seen_though_it_never_crosses_a_fixed_limit() -> None:
    before, after, cured = COLLAPSE
    line = Line("w")
    assert line.run(40, before) == -1
    assert 1 <= line.run(40, after) <= 8  # two minutes
    assert line.states() == [State.FALLEN]
    assert after > 1.4
    line.run(10, cured)
    assert line.states() == [State.NO_EVIDENCE]


def test_a_worker_that_falls_alone_is_told_from_one_that_falls_with_its_peers() -> None:
    alone = Line("w", "p", "q")
    alone.run(40, 3.0, 3.0, 2.8)
    alone.run(20, 1.6, 3.0, 2.8)
    assert alone.states() == [State.FALLEN, State.NO_EVIDENCE, State.NO_EVIDENCE]
    together = Line("w", "p", "q")
    together.run(40, 3.0, 3.0, 2.8)
    together.run(20, 1.6, 1.6, 1.5)
    assert together.states() == [State.FALLEN_WITH_PEERS] * 3


def test_a_worker_that_falls_further_than_its_peers_is_suspect_itself() -> None:
    line = Line("w", "p", "q")
    line.run(40, 4.0, 4.0, 4.0)
    line.run(40, 1.2, 3.0, 3.0)
    assert line.states()[0] is State.FALLEN


def test_peers_whose_samples_are_old_are_no_control() -> None:
    line = Line("w", "p")
    line.run(40, 3.0, 3.0)
    line.now += PEER_FRESH_S
    for _ in range(20):
        line.now += 15.0
        line.acceptance.see("w", "m", 1.5, line.now)
    view = line.views()[0]
    assert (view.state, view.peers) == (State.FALLEN, 0)


def test_a_worker_that_was_learned_broken_is_below_its_peers() -> None:
    line = Line("w", "p", "q")
    line.run(40, 1.2, 3.0, 3.2)
    assert line.states() == [State.BELOW_PEERS, State.NO_EVIDENCE, State.NO_EVIDENCE]


def test_another_model_is_no_peer() -> None:
    acceptance = Acceptance("metrics")
    for sample in range(40):
        for worker, model, length in (("w", "small", 1.2), ("p", "large", 3.0), ("q", "large", 3.0)):
            acceptance.see(worker, model, length, sample * 15.0)
    assert {view.state for view in acceptance.views()} == {State.NO_EVIDENCE}


@pytest.mark.parametrize("memory", [0.0, 0.7])
def test_noise_alone_raises_no_alarm_in_eight_days_of_scrapes(memory: float) -> None:
    fell = [Line("w", seed=seed, memory=memory).run(4_000, 3.0) for seed in range(12)]
    assert fell == [-1] * 12


def test_an_e_value_under_the_null_is_large_as_seldom_as_it_says() -> None:
    random, passed = Random(5), 0
    for _ in range(400):
        detector = FallDetector()
        highest = 0.0
        for _ in range(200):
            detector.see(random.gauss(0.0, 1.0))
            highest = max(highest, detector.log10_e)
        passed += highest >= 2
    assert passed / 400 <= 2 * 10**-2
    assert not FallDetector().alarm
    assert ALPHA <= 1e-6


def test_a_worker_falls_alone_among_two() -> None:
    line = Line("w", "p")
    line.run(40, 3.0, 3.0)
    line.run(20, 1.5, 3.0)
    assert line.states() == [State.FALLEN, State.NO_EVIDENCE]


def test_a_baseline_is_frozen() -> None:
    line = Line("w", noise=0.0)
    line.run(BASELINE, 4.0)
    line.run(300, 3.6)  # within the margin
    (view,) = line.views()
    assert view.baseline == pytest.approx(4.0)
    assert view.accept_length == pytest.approx(3.6)


def test_a_slow_decay_ends_in_an_alarm() -> None:
    line = Line("w")
    line.run(BASELINE, 4.0)
    states = [line.run(1, 4.0 * 0.995**day) for day in range(200)]
    assert any(fell == 1 for fell in states)


@pytest.mark.parametrize("length", [float("nan"), float("inf"), 0.0, 0.99, -3.0])
def test_a_sample_that_is_none_is_passed_over(length: float) -> None:
    acceptance = Acceptance("metrics")
    acceptance.see("w", "m", length, 1.0)
    assert acceptance.views() == ()


def test_while_it_learns_nothing_is_said() -> None:
    acceptance = Acceptance("streams")
    acceptance.see("w", "m", 2.0, 1.0)
    (view,) = acceptance.views()
    assert (view.state, view.samples) == (State.LEARNING, 1)
    assert view.accept_length == pytest.approx(2.0)
    assert isnan(view.baseline)
    assert view.source == "streams"


def test_learning_anew_and_forgetting() -> None:
    line = Line("w", "p")
    line.run(40, 3.0, 3.0)
    line.acceptance.forget("w")
    assert [view.worker for view in line.views()] == ["p"]
    line.acceptance.keep(["w"])
    assert line.views() == ()


def test_memory_is_bounded_however_many_workers_are_named() -> None:
    acceptance = Acceptance("metrics")
    for number in range(WORKERS_MAX + 50):
        acceptance.see(f"w{number}", "m", 2.0, 1.0)
    assert len(acceptance.views()) == WORKERS_MAX


def test_the_margin_is_what_traffic_may_do() -> None:
    for part in (0.95, 0.88):
        line = Line("w")
        line.run(40, 3.0)
        assert line.run(400, 3.0 * part) == -1
