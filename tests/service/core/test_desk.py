from service.core.desk import SAMPLES_MAX
from tests.service.core.toy import desk


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
