"""A tick carries what was counted, and remembers for a scrape what made the guard fail open."""

import pytest

from service.edges.health import Health
from service.edges.live import LiveBoard
from service.edges.metrics import Metrics
from service.edges.pulse import REMEMBERED_S, Pulse
from service.edges.ticker import Ticker
from tests.guarding import new_desk

FAILOPEN = "specguard_failopen_active"


class Beat:
    """A pulse with all it touches."""

    def __init__(self) -> None:
        self.desk = new_desk()
        self.metrics = Metrics(detectors=["loop"])
        self.health = Health(fails_closed=False)
        self.pulse = Pulse(self.desk, self.metrics, self.health, LiveBoard(), streams_max=2, waiting=range(3))

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def beat() -> Beat:
    return Beat()


def test_counts_and_samples_reach_the_registry_once(beat: Beat) -> None:
    beat.desk.count("delivered_bad_tokens", by=7)
    beat.desk.sample("stream_duration_seconds", 2.5)
    beat.pulse(1.0)
    beat.pulse(1.25)
    assert beat.value("specguard_delivered_bad_tokens_total") == 7
    assert beat.value("specguard_stream_duration_seconds_count") == 1


def test_gauges_tell_what_is_held_waiting_and_left(beat: Beat) -> None:
    beat.desk.held_bytes = 4096
    beat.health.router_up = True
    beat.pulse(1.0)
    assert beat.value("specguard_held_bytes") == 4096
    assert beat.value("specguard_store_queue_length") == 3
    assert beat.value("specguard_retry_budget_ratio") == 1.0
    assert beat.value("specguard_router_up") == 1.0


def test_a_detector_fault_shows_for_a_minute(beat: Beat) -> None:
    beat.desk.count("detector_faults", "loop")
    beat.pulse(100.0)
    beat.pulse(100.0 + REMEMBERED_S - 1)
    assert beat.value(FAILOPEN, reason="detector") == 1
    beat.pulse(100.0 + REMEMBERED_S)
    assert beat.value(FAILOPEN, reason="detector") == 0


def test_full_memory_and_full_streams_fail_open(beat: Beat) -> None:
    beat.pulse(100.0)
    assert beat.value(FAILOPEN, reason="memory") == beat.value(FAILOPEN, reason="streams") == 0
    beat.desk.count("hold_overflow", "protect")
    beat.pulse.watch([None, None], Ticker())  # type: ignore[list-item]  # only counted here
    beat.pulse(101.0)
    assert beat.value(FAILOPEN, reason="memory") == beat.value(FAILOPEN, reason="streams") == 1
    assert repr(beat.pulse) == "<Pulse 2 live>"


def test_a_tick_is_a_sign_of_life_and_tells_its_lag(beat: Beat) -> None:
    ticker = Ticker()
    ticker.lag_s = 0.003
    beat.pulse.watch((), ticker)
    beat.health.beat(-1e9)
    beat.pulse(beat.health._beat_at + 1e9)
    assert beat.health._beat_at == 0.0
    assert beat.value("specguard_loop_lag_seconds_count") == 1
