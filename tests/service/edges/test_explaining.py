"""An incident is kept with its hints, or without, but kept."""

import msgspec
from structlog.testing import capture_logs

from service.core.events import Cached, Incident, WorkerFacts
from service.core.fleet_watch import FleetView, FleetWatch
from service.edges.case import Kept
from service.edges.explaining import CHANGES_S, Explaining
from service.edges.scene import Engine, Scene
from tests.service.edges.kept import facts, incident


class Kiosk:
    """Takes incidents in, at a time of its own."""

    def __init__(self) -> None:
        self.kept: list[Incident] = []
        self.watch = FleetWatch()
        self.now = 10_000.0
        self.explaining = Explaining(self.watch, self.keep, lambda: self.now)

    def keep(self, incident: Incident, _: Kept) -> None:
        self.kept.append(incident)


def test_hints_come_with_the_incident() -> None:
    kiosk = Kiosk()
    kiosk.explaining(incident(), Kept(facts()))
    (hint,) = kiosk.kept[0].hints
    assert hint.cause == "no_evidence_in_telemetry"
    assert msgspec.structs.replace(kiosk.kept[0], hints=()) == incident()


def test_a_change_counts_near_the_onset_only() -> None:
    kiosk = Kiosk()
    kiosk.watch.changes.tell(kiosk.now - 60, "image rolled out", "http://w:1")
    kiosk.explaining(incident(), Kept(facts()))
    kiosk.now += CHANGES_S
    kiosk.explaining(incident(), Kept(facts()))
    assert [one.hints[0].cause for one in kiosk.kept] == ["bad_deploy", "no_evidence_in_telemetry"]
    assert "image rolled out" in kiosk.kept[0].hints[0].evidence


def test_a_worker_that_told_of_no_prefix_cache_is_not_to_be_flushed() -> None:
    kiosk = Kiosk()
    spoilt = incident()
    attempts = tuple(msgspec.structs.replace(one, cached=Cached(90, 64)) for one in spoilt.attempts)
    spoilt = msgspec.structs.replace(spoilt, attempts=attempts)
    for off in (False, True):
        engine = Engine(arguments={"disable_radix_cache": off})
        kiosk.explaining(spoilt, Kept(facts(), scene=Scene(engine)))
    assert ["/flush_cache" in one.hints[0].next_step for one in kiosk.kept] == [True, False]


def test_what_fails_in_explaining_costs_the_hints_alone() -> None:
    kiosk = Kiosk()
    kiosk.watch.view = FleetView(1.0, (WorkerFacts("no view"),))  # type: ignore[arg-type]
    with capture_logs() as logs:
        kiosk.explaining(incident(), Kept(facts()))
    assert kiosk.kept == [incident()]
    assert logs[0]["event"] == "hints_failed"
