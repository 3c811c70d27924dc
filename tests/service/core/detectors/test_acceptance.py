import random
from math import exp, log

import pytest

from service.core.detectors.acceptance import Acceptance, likelihood_ratio
from service.core.events import Drafter, Finding, Kind, Look, RequestFacts, Step, WorkerFacts

RULE = Acceptance(safe_anchor=0.35, floor_min=0.2, corrupt_rate=0.15, clip=6.0, report_step=0.5)
FACTS = RequestFacts(dialect="test")
MODEL = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3)
K = 3


def draw(rng: random.Random, rate: float) -> Step:
    """One verify step of three drafts, each accepted with this probability after the one before."""
    accepted = 0
    while accepted < K and rng.random() < rate:
        accepted += 1
    return Step(K, accepted)


def evidence(steps: list[Step], worker: WorkerFacts = MODEL, batch: int = 4) -> float:
    """The last log10 e that was given out over these steps."""
    state, said = RULE.start(FACTS, worker), 0.0
    for at in range(0, len(steps), batch):
        finding = RULE.look(state, Look(steps=tuple(steps[at : at + batch]), tokens=2 * at))
        said = finding.log10_e if finding else said
    return said


def delay(rate: float, onset: int, anchor: float, rng: random.Random, healthy: float) -> int:
    """Steps after the onset until the evidence reaches a million."""
    state = RULE.start(FACTS, WorkerFacts(drafter=Drafter.MODEL, accept_floor=anchor))
    RULE.look(state, Look(steps=tuple(draw(rng, healthy) for _ in range(onset))))
    for step in range(1, 2000):
        finding = RULE.look(state, Look(steps=(draw(rng, rate),)))
        if finding and finding.log10_e >= 6:
            return step
    raise AssertionError


def test_a_collapse_is_suspected_and_never_called_more_than_low_acceptance() -> None:
    state = RULE.start(FACTS, MODEL)
    finding = RULE.look(state, Look(steps=(Step(K, 0),) * 200, tokens=200))
    assert isinstance(finding, Finding)
    assert finding.log10_e > 6
    assert finding.kind is Kind.LOW_ACCEPTANCE


def test_healthy_acceptance_is_silent() -> None:
    rng = random.Random(1)
    assert evidence([draw(rng, 0.7) for _ in range(3000)]) == 0


@pytest.mark.parametrize(
    ("onset", "anchor", "healthy", "at_most"),
    [(0, 0.7, 0.7, 20), (1000, 0.7, 0.7, 36), (1000, 0.35, 0.5, 150)],
)
def test_the_mean_delay_is_the_references(onset: int, anchor: float, healthy: float, at_most: int) -> None:
    rng = random.Random(2)
    delays = [delay(0.1, onset, anchor, rng, healthy) for _ in range(40)]
    assert sum(delays) / len(delays) <= at_most


def test_false_alarms_at_the_anchor_keep_the_promise() -> None:
    # Ville: at most 1 in 10 healthy streams, however long, ever reach 10; drawn at the anchor itself
    rng = random.Random(3)
    alarms = sum(evidence([draw(rng, 0.35) for _ in range(300)]) >= 1 for _ in range(300))
    assert alarms <= 0.1 * 300 + 3 * (0.1 * 300) ** 0.5


@pytest.mark.parametrize("drafter", [Drafter.NGRAM, Drafter.NONE, Drafter.UNKNOWN])
def test_growth_of_one_is_no_data_where_no_model_drafts(drafter: Drafter) -> None:
    # the clean capture sgl-fault-none: 55 steps of an n-gram drafter, none accepted
    assert evidence([Step(4, 0)] * 500, WorkerFacts(drafter=drafter)) == 0


def test_a_learned_floor_makes_any_drafter_evidence() -> None:
    learned = WorkerFacts(drafter=Drafter.NGRAM, accept_floor=0.3)
    assert evidence([Step(4, 0)] * 200, learned) > 5
    assert evidence([Step(4, 0)] * 200, WorkerFacts(drafter=Drafter.NGRAM, accept_floor=0.1)) == 0


def test_a_higher_floor_is_faster() -> None:
    slow = evidence([Step(K, 0)] * 40)
    fast = evidence([Step(K, 0)] * 40, WorkerFacts(drafter=Drafter.MODEL, accept_floor=0.6))
    assert fast > slow + 3


def test_the_onset_is_where_acceptance_fell() -> None:
    rng = random.Random(4)
    state = RULE.start(FACTS, WorkerFacts(drafter=Drafter.MODEL, accept_floor=0.6))
    RULE.look(state, Look(steps=tuple(draw(rng, 0.8) for _ in range(100)), tokens=300))
    finding = RULE.look(state, Look(steps=(Step(K, 0),) * 60, tokens=360))
    assert finding is not None
    assert 290 <= finding.onset_token <= 310


@pytest.mark.parametrize("batch", [1, 3, 50, 1000])
def test_batches_do_not_change_the_evidence(batch: int) -> None:
    rng = random.Random(5)
    steps = [draw(rng, 0.6) for _ in range(300)] + [draw(rng, 0.05) for _ in range(120)]
    assert evidence(steps, batch=batch) == evidence(steps, batch=7)


def test_the_likelihood_ratio_is_that_of_a_censored_geometric() -> None:
    stopped = likelihood_ratio(0.5, 0.1, 6.0, 3, 1)
    full = likelihood_ratio(0.5, 0.1, 6.0, 3, 3)
    assert stopped == pytest.approx((0.1 * 0.9) / (0.5 * 0.5))
    assert full == pytest.approx((0.1 / 0.5) ** 3)
    assert likelihood_ratio(0.7, 0.1, 6.0, 64, 64) == pytest.approx(exp(-6.0))
    assert log(likelihood_ratio(0.35, 0.15, 6.0, 3, 0)) > 0


def test_an_endless_collapse_does_not_overflow() -> None:
    assert evidence([Step(K, 0)] * 20_000, WorkerFacts(drafter=Drafter.MODEL, accept_floor=0.7)) <= 280
