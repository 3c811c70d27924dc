import pytest

from service.core.anchors import ANY, Anchors
from service.core.desk import SAMPLES_MAX, Desk
from service.core.detectors.acceptance import Acceptance
from service.core.events import Drafter, Policy, RequestFacts, WorkerFacts
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
    shared = Desk((ACCEPTANCE, SaysBad()), FUSION)
    asked = shared.asked(policy, RequestFacts("toy", model=model), worker)
    assert (ACCEPTANCE in asked) is has_its_say
    assert SaysBad() in asked


def test_observed_streams_go_without_what_is_kept_for_records() -> None:
    shared = Desk((ACCEPTANCE, SaysBad()), FUSION, offline=("acceptance",))
    assert shared.asked(Policy.OBSERVE, RequestFacts("toy"), LEARNED) == (SaysBad(),)
    assert ACCEPTANCE in shared.asked(Policy.STRICT, RequestFacts("toy"), LEARNED)
