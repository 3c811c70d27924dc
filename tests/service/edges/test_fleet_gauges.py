"""What the fleet's judgement looks like to a scrape."""

from service.core.events import CLEAN, Attempt, Judgement, Kind, Level, RequestFacts, WorkerFacts
from service.core.fleet_watch import LOOK_S, FleetWatch, Gauge
from service.edges.fleet_gauges import FleetGauges
from service.edges.metrics import Metrics

ASKED = RequestFacts("openai_chat", "m")
BAD = Judgement(Level.CORRUPT, Kind.GARBLED, "garble", 9.0)


class Scraped:
    """A fleet of two, and its gauges."""

    def __init__(self) -> None:
        self.watch, self.metrics = FleetWatch(), Metrics()
        self.gauges = FleetGauges(self.watch, self.metrics)
        self.now = 0.0

    def pass_by(self, times: int, length: float) -> None:
        for _ in range(times):
            self.now += LOOK_S
            self.watch.scraped(Gauge("http://d1", self.now, "m", length, fresh=True, running=1.0))
            self.watch.scraped(Gauge("http://d2", self.now, "m", 3.0, fresh=True, running=1.0))
            self.watch.look(self.now, [WorkerFacts("http://d1"), WorkerFacts("http://d2")], {})
            self.gauges()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"specguard_{name}", labels)


def test_a_collapse_sets_and_a_recovery_takes_back() -> None:
    seen = Scraped()
    seen.pass_by(40, 3.0)
    assert seen.value("worker_suspect", worker="http://d1", reason="acceptance") is None
    seen.pass_by(10, 1.3)
    assert seen.value("worker_suspect", worker="http://d1", reason="acceptance") == 1
    assert seen.value("worker_suspect", worker="http://d2", reason="acceptance") is None
    evidence = seen.value("worker_fall_evidence", worker="http://d1", source="metrics")
    assert evidence is not None
    assert evidence > 6
    seen.pass_by(10, 3.0)
    assert seen.value("worker_suspect", worker="http://d1", reason="acceptance") == 0


def test_length_and_baseline_are_told_once_they_are_known() -> None:
    seen = Scraped()
    seen.pass_by(1, 2.5)
    assert seen.value("worker_accept_length", worker="http://d1", source="metrics") == 2.5
    assert seen.value("worker_accept_baseline", worker="http://d1", source="metrics") is None
    seen.pass_by(40, 2.5)
    assert seen.value("worker_accept_baseline", worker="http://d1", source="metrics") == 2.5


def test_groups_are_counted_by_dimension() -> None:
    seen = Scraped()
    for number in range(300):
        for url in ("http://d1", "http://d2"):
            bad = url == "http://d1" and number < 40
            seen.watch.over(Attempt("r", url, 200, BAD if bad else CLEAN), ASKED, "default", 1.0)
    seen.pass_by(1, 3.0)
    assert seen.value("suspect_groups", dimension="worker") == 1
    assert seen.value("suspect_groups", dimension="route") == 0
    assert seen.value("worker_suspect", worker="http://d1", reason="corruption") == 1
    assert seen.value("fallen_models") == 0
