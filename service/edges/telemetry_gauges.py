"""How well acceptance is known, as gauges: coverage, each worker's source, each worker's probe.

telemetry_coverage_ratio  of recent generations      acceptance_source_info  what told a worker's newest one
probe_up                  heard within half a minute, hence 0 on a worker that rests
probe_aside               the probe met an engine it does not know and does nothing any more: tell somebody
"""

from collections.abc import Iterable
from typing import Final

from service.core.desk import Desk
from service.core.probe_feed import Sender
from service.edges.metrics import Counting

UNNAMED: Final = "unknown"


class TelemetryGauges:
    """Call it with the time; remembers what it told, to take it back."""

    def __init__(self, desk: Desk, metrics: Counting) -> None:
        self._desk = desk
        self._put = metrics.set
        self._sources: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<TelemetryGauges {len(self._sources)} workers>"

    def __call__(self, now: float) -> None:
        coverage = self._desk.coverage
        for how, ratio in coverage.ratios().items():
            self._put("telemetry_coverage_ratio", how, value=ratio)
        for worker, how in coverage.sources.items():
            before = self._sources.get(worker)
            if before != how:
                self._sources[worker] = how
                self._put("acceptance_source_info", worker, how, value=1)
                if before is not None:
                    self._put("acceptance_source_info", worker, before, value=0)
        if self._desk.probes is not None:
            self._probes(self._desk.probes.senders(), now)

    def _probes(self, senders: Iterable[Sender], now: float) -> None:
        """A worker has one scheduler a rank: it is up while any is heard, aside once any is."""
        up: dict[str, bool] = {}
        aside: dict[str, bool] = {}
        for sender in senders:
            name = sender.name or UNNAMED
            up[name] = up.get(name, False) or sender.live(now)
            aside[name] = aside.get(name, False) or sender.aside
        for name, heard in up.items():
            self._put("probe_up", name, value=heard)
            self._put("probe_aside", name, value=aside[name])
