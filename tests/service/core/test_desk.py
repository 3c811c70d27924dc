import pytest

from service.core.anchors import ANY, Anchors
from service.core.desk import SAMPLES_MAX, Desk
from service.core.detectors.acceptance import Acceptance
from service.core.events import Delta, Drafter, Level, Policy, RequestFacts, WorkerFacts
from tests.service.core.toy import FUSION, SaysBad, desk

ACCEPTANCE = Acceptance(safe_anchor=0.35, floor_min=0.25, corrupt_rate=0.15, clip=6.0, report_step=0.5)
GUESSED = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3)
LEARNED = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3, anchors=Anchors({("m", ANY): (0.6,)}))


def test_counters_are_handed_over_once() -> None:
    shared = desk()
    shared.count("streams", "a", "clean")
    shared.count("streams", "a", "clean", by=2)
    shared.sample("stream_duration_seconds", 3.5)
    assert shared.drain() == ({("streams", "a", "clean"): 3}, {"stream_duration_seconds": [3.5]})
    assert shared.drain() == ({}, {})


def test_observations_are_bounded_and_the_rest_is_counted() -> None:
    shared = desk()
    for _ in range(SAMPLES_MAX + 5):
        shared.sample("stream_duration_seconds", 1.0)
    counts, samples = shared.drain()
    assert len(samples["stream_duration_seconds"]) == SAMPLES_MAX
    assert counts["samples_dropped",] == 5


def test_its_state_shows() -> None:
    assert repr(desk()).startswith("<Desk 0 bytes held, <RetryBudget 0 retried of 0 completed>")


def test_no_probe_is_listened_for_unless_somebody_sets_it_up() -> None:
    assert desk().probes is None


@pytest.mark.parametrize(
    ("policy", "worker", "model", "has_its_say"),
    [
        (Policy.PROTECT, GUESSED, "m", False),
        (Policy.PROTECT, LEARNED, "another", False),
        (Policy.PROTECT, LEARNED, "m", True),
        (Policy.STRICT, GUESSED, "m", True),
        (Policy.OBSERVE, GUESSED, "m", True),
    ],
)
def test_protect_arms_acceptance_only_where_a_calibration_covers_the_request(
    policy: Policy, worker: WorkerFacts, model: str, has_its_say: bool
) -> None:
    inspector = Desk((ACCEPTANCE, SaysBad()), FUSION).inspector(
        policy, RequestFacts("toy", model=model), worker
    )
    inspector.read([Delta(text="a", tokens=1)], 0.0)
    inspector.read([Delta(text="b", tokens=400, exact=(0,) * 400)], 0.0)
    assert (inspector.judgement.level is Level.SUSPECT) is has_its_say
    assert (inspector.doubt > 3) is has_its_say
    assert [finding.detector for finding in inspector.findings()] == ["acceptance"]  # the fleet hears of it


def test_observed_streams_go_without_what_is_kept_for_records() -> None:
    shared = Desk((ACCEPTANCE, SaysBad()), FUSION, offline=("acceptance",))
    low = [Delta(text="a", tokens=1), Delta(text="b", tokens=400, exact=(0,) * 400)]
    for policy, found in ((Policy.OBSERVE, 0), (Policy.STRICT, 1)):
        inspector = shared.inspector(policy, RequestFacts("toy", model="m"), LEARNED)
        inspector.read(low, 0.0)
        assert len(inspector.findings()) == found
