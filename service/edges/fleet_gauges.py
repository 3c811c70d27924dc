"""The judgement of the fleet as gauges: who is suspect and why, and what acceptance is held against what.

A series of `worker_suspect` begins with the first suspicion and is set back to 0 afterwards: a fleet without
any has none, however large it is.
"""

from math import isfinite

from service.core.fleet_rates import DIMENSIONS
from service.core.fleet_watch import FleetView, FleetWatch, Reason, WorkerView
from service.edges.metrics import Counting


class FleetGauges:
    """Call it each tick; it does something when there is a new view."""

    def __init__(self, watch: FleetWatch, metrics: Counting) -> None:
        self._watch = watch
        self._put = metrics.set
        self._told: FleetView = watch.view
        self._suspected: set[tuple[str, Reason]] = set()

    def __repr__(self) -> str:
        return f"<FleetGauges {len(self._suspected)} suspicions>"

    def __call__(self) -> None:
        view = self._watch.view
        if view is self._told:
            return
        self._told = view
        for worker in view.workers:
            self._acceptance(worker)
        self._suspicions(view)
        self._put("fallen_models", value=len(view.fallen_models))
        suspects = [rate.dimension for rate in view.suspect_groups()]
        for dimension in DIMENSIONS:
            self._put("suspect_groups", dimension, value=suspects.count(dimension))

    def _acceptance(self, worker: WorkerView) -> None:
        for one in worker.acceptance:
            self._put("worker_accept_length", one.worker, one.source, value=one.accept_length)
            if isfinite(one.baseline):
                self._put("worker_accept_baseline", one.worker, one.source, value=one.baseline)
                self._put("worker_fall_evidence", one.worker, one.source, value=one.log10_e)

    def _suspicions(self, view: FleetView) -> None:
        now = {(worker.url, reason) for worker in view.workers for reason in worker.suspect}
        for url, reason in self._suspected | now:
            self._put("worker_suspect", url, reason, value=(url, reason) in now)
        self._suspected |= now
