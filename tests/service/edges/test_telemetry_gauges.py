"""What is known of acceptance, and which probe stands aside, as a scrape sees it."""

from service.core.probe_feed import LIVE_S, ProbeFeed
from service.edges.metrics import Metrics
from service.edges.telemetry_gauges import TelemetryGauges
from tests.guarding import new_desk
from tests.probing import Worker


class Scraped:
    """A desk and its gauges."""

    def __init__(self) -> None:
        self.desk, self.metrics = new_desk(), Metrics()
        self.desk.probes = ProbeFeed()
        self.gauges = TelemetryGauges(self.desk, self.metrics)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"specguard_{name}", labels)


def test_coverage_is_the_share_of_each_source() -> None:
    seen = Scraped()
    seen.gauges(0.0)
    assert seen.value("telemetry_coverage_ratio", source="exact") == 0
    for _ in range(3):
        seen.desk.coverage.over("http://w:1", "exact")
    seen.gauges(0.0)
    assert seen.value("telemetry_coverage_ratio", source="exact") == 1
    assert seen.value("telemetry_coverage_ratio", source="none") == 0


def test_a_workers_source_is_one_and_changes() -> None:
    seen = Scraped()
    seen.desk.coverage.over("http://w:1", "upper")
    seen.gauges(0.0)
    assert seen.value("acceptance_source_info", worker="http://w:1", source="upper") == 1
    seen.desk.coverage.over("http://w:1", "exact")
    seen.gauges(0.0)
    assert seen.value("acceptance_source_info", worker="http://w:1", source="upper") == 0
    assert seen.value("acceptance_source_info", worker="http://w:1", source="exact") == 1


def test_a_probe_is_up_while_it_is_heard() -> None:
    seen = Scraped()
    assert seen.desk.probes is not None
    seen.desk.probes.read(Worker("http://w:1").series("r", 1)[0], 0.0)
    seen.gauges(1.0)
    assert seen.value("probe_up", worker="http://w:1") == 1
    seen.gauges(LIVE_S + 1)
    assert seen.value("probe_up", worker="http://w:1") == 0
    assert seen.value("probe_aside", worker="http://w:1") == 0


def test_a_probe_that_stood_aside_is_told_even_if_it_never_learned_its_name() -> None:
    seen = Scraped()
    assert seen.desk.probes is not None
    seen.desk.probes.read(Worker("").status("sglang 0.6.0 is not in the table", aside=True), 0.0)
    seen.gauges(1.0)
    assert seen.value("probe_aside", worker="unknown") == 1
    assert seen.value("probe_up", worker="unknown") == 0
