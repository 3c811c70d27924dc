import json
import random
from collections.abc import Iterator
from math import exp
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.acceptance import StepCounter
from service.core.anchors import ANY, Anchors
from service.core.detectors.acceptance import Acceptance, Law, factors
from service.core.events import UNKNOWN, Delta, Drafter, Finding, Kind, Look, RequestFacts, Step, WorkerFacts

FIXTURES = Path(__file__).parents[3] / "fixtures"
RULE = Acceptance(safe_anchor=0.35, floor_min=0.25, corrupt_rate=0.15, clip=6.0, report_step=0.5)
FACTS = RequestFacts(dialect="test")
MODEL = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3)
K = 3


def learned(anchor: float) -> Anchors:
    """One anchor for every model, kind and depth."""
    return Anchors({("", ANY): (anchor,)})


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
    state = RULE.start(FACTS, WorkerFacts(drafter=Drafter.MODEL, anchors=learned(anchor)))
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
    [(0, 0.7, 0.7, 21), (1000, 0.7, 0.7, 34), (1000, 0.35, 0.35, 150)],
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


def worker_of(drafter: Drafter, anchor: float, *, fault: bool = False) -> WorkerFacts:
    return WorkerFacts(drafter=drafter, anchors=learned(anchor), draft_fault=fault)


def test_a_learned_anchor_makes_any_drafter_evidence() -> None:
    refused = [Step(4, 0)] * 200
    assert evidence(refused, worker_of(Drafter.NGRAM, 0.3)) > 5
    assert evidence(refused, worker_of(Drafter.NGRAM, 0.25)) == 0


def test_the_least_that_calibration_gives_is_evidence_where_a_model_drafts() -> None:
    refused = [Step(4, 0)] * 200
    assert evidence(refused, worker_of(Drafter.MODEL, 0.25)) > 5
    assert evidence(refused, worker_of(Drafter.MODEL, 0.1)) == 0


def test_a_draft_that_fails_everybody_is_no_evidence_against_anybody() -> None:
    assert evidence([Step(4, 0)] * 200, worker_of(Drafter.MODEL, 0.6, fault=True)) == 0


def test_a_higher_floor_is_faster() -> None:
    slow = evidence([Step(K, 0)] * 40)
    fast = evidence([Step(K, 0)] * 40, WorkerFacts(drafter=Drafter.MODEL, anchors=learned(0.6)))
    assert fast > slow + 3


def test_the_onset_is_where_acceptance_fell() -> None:
    rng = random.Random(4)
    state = RULE.start(FACTS, WorkerFacts(drafter=Drafter.MODEL, anchors=learned(0.6)))
    healthy = tuple(draw(rng, 0.8) for _ in range(100))
    onset = 1 + sum(step.accepted + 1 for step in healthy)
    RULE.look(state, Look(steps=healthy, tokens=onset))
    finding = RULE.look(state, Look(steps=(Step(K, 0),) * 60, tokens=onset + 60))
    assert finding is not None
    assert onset - 10 <= finding.onset_token <= onset + 10


@pytest.mark.parametrize("batch", [1, 3, 50, 1000])
def test_batches_do_not_change_the_evidence(batch: int) -> None:
    rng = random.Random(5)
    steps = [draw(rng, 0.6) for _ in range(300)] + [draw(rng, 0.05) for _ in range(120)]
    assert evidence(steps, batch=batch) == evidence(steps, batch=7)


LAW = Law((0.5,), 0.1, 6.0)


def test_the_factor_is_that_of_a_censored_geometric() -> None:
    row = factors(LAW, 3)
    assert row[0] == pytest.approx(0.9 / 0.5)
    assert row[1] == pytest.approx((0.1 * 0.9) / (0.5 * 0.5))
    assert row[3] == pytest.approx((0.1 / 0.5) ** 3)


def test_depths_may_have_hazards_of_their_own() -> None:
    row = factors(Law((0.8, 0.6, 0.4), 0.1, 6.0), 3)
    assert row[2] == pytest.approx((0.1 * 0.1 * 0.9) / (0.8 * 0.6 * 0.6))
    assert row[3] == pytest.approx((0.1 * 0.1 * 0.1) / (0.8 * 0.6 * 0.4))


def test_one_odd_step_does_not_decide() -> None:
    assert max(factors(Law((0.98,), 0.001, 3.0), 4)) == pytest.approx(exp(3.0))


def test_where_the_depth_is_not_told_only_a_step_of_none_is_a_refusal() -> None:
    row = factors(LAW, UNKNOWN)
    assert row[0] == pytest.approx(0.9 / 0.5)
    assert row[1] == pytest.approx(0.1 / 0.5)
    assert row[4] == pytest.approx((0.1 / 0.5) ** 4)


def test_where_nothing_was_drafted_nothing_is_said() -> None:
    assert set(factors(LAW, 0)) == {1.0}


HAZARDS = st.lists(st.floats(0.05, 0.95), min_size=1, max_size=5).map(tuple)


def splits(growth: int, most: int) -> Iterator[list[int]]:
    """Every way in which single steps make up a growth, as accepted drafts."""
    if not growth:
        yield []
    for step in range(1, min(growth, most) + 1):
        for rest in splits(growth - step, most):
            yield [step - 1, *rest]


@given(HAZARDS, st.integers(2, 4), st.integers(1, 9))
def test_a_merged_event_is_no_more_evidence_than_any_end_of_any_split(
    anchor: tuple[float, ...], depth: int, growth: int
) -> None:
    row = factors(Law(anchor, 0.15, 6.0), depth)
    for split in splits(growth, depth + 1):
        product = 1.0
        for accepted in reversed(split):
            product *= row[accepted]
            assert row[growth - 1] <= product * (1 + 1e-9)


@given(HAZARDS, st.integers(1, 5), st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_a_healthy_step_is_no_evidence_on_average(
    anchor: tuple[float, ...], depth: int, better: list[float]
) -> None:
    """Whatever the hazards, as long as each is at least its anchor."""
    row = factors(Law(anchor, 0.15, 6.0), depth)
    reached, mean = 1.0, 0.0
    for at in range(depth):
        least = anchor[min(at, len(anchor) - 1)]
        hazard = least + (1 - least) * better[at]
        mean += reached * (1 - hazard) * row[at]
        reached *= hazard
    assert mean + reached * row[depth] <= 1 + 1e-9


def merged(accepted: list[int], lengths: list[int]) -> list[Step]:
    """The steps that a reader counts where events swallow that many steps each."""
    tokens, deltas, at = 1, [Delta(tokens=1)], 0
    for length in lengths:
        tokens += sum(one + 1 for one in accepted[at : at + length])
        at += length
        deltas.append(Delta(tokens=tokens))
    out: list[Step] = []
    StepCounter(K).read(deltas, out)
    return out


@given(st.lists(st.integers(0, K), min_size=1, max_size=60), st.data())
def test_an_adversary_who_merges_with_all_values_in_hand_gains_nothing(
    accepted: list[int], data: st.DataObject
) -> None:
    """At the end of every event R is at most what the single steps would have given."""
    lengths: list[int] = []
    while sum(lengths) < len(accepted):
        lengths.append(data.draw(st.integers(1, len(accepted) - sum(lengths))))
    single, worse = RULE.start(FACTS, MODEL), RULE.start(FACTS, MODEL)
    at = 0
    for length, step in zip(lengths, merged([*accepted, 0], [*lengths, 1]), strict=False):
        RULE.look(single, Look(steps=tuple(Step(K, one) for one in accepted[at : at + length])))
        RULE.look(worse, Look(steps=(step,)))
        at += length
        assert worse.r <= single.r * (1 + 1e-9)
    assert worse.peak <= single.peak * (1 + 1e-9)


def test_clean_traces_of_a_real_model_stay_silent() -> None:
    traces = json.loads((FIXTURES / "accept_traces.json").read_text(encoding="utf-8"))
    for drafter in (Drafter.MODEL, Drafter.NGRAM):
        for trace in traces[drafter]:
            steps = [Step(int(pair[0]), int(pair[1])) for pair in trace.split()]
            assert evidence(steps, WorkerFacts(drafter=drafter, draft_tokens=4)) < 3


def test_a_calibrated_anchor_holds_for_its_kind_of_request() -> None:
    worker = WorkerFacts(drafter=Drafter.MODEL, anchors=Anchors({("", "warm/free/prose"): (0.7, 0.6)}))
    covered = RULE.start(RequestFacts(dialect="test", temperature=0.8), worker)
    unknown = RULE.start(RequestFacts(dialect="test", temperature=0.0), worker)
    assert [state.law.anchor for state in (covered, unknown) if state.law] == [
        (0.7, 0.6),
        (RULE.safe_anchor,),
    ]


def test_with_the_horizon_known_a_late_collapse_is_found_sooner() -> None:
    facts = RequestFacts(dialect="test", max_tokens=2000)
    worker = WorkerFacts(drafter=Drafter.MODEL, anchors=learned(0.7))
    found = []
    for asked in (facts, FACTS):
        state = RULE.start(asked, worker)
        RULE.look(state, Look(steps=(Step(K, 2),) * 300))
        RULE.look(state, Look(steps=(Step(K, 0),) * 12))
        found.append(state.peak)
    assert found[0] > 2 * found[1]


def test_an_endless_collapse_does_not_overflow() -> None:
    assert evidence([Step(K, 0)] * 20_000, WorkerFacts(drafter=Drafter.MODEL, anchors=learned(0.7))) <= 280
