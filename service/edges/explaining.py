"""Between the streams and the store: an incident gets its hints while the fleet is as it was.

On the data loop, once an incident: about 100 us. What goes wrong here is logged and costs the hints alone.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final

import msgspec
import structlog

from service.core.events import Incident
from service.core.fleet_watch import FleetWatch
from service.core.hints.evidence import Evidence
from service.core.hints.rank import explain
from service.edges.case import Kept

CHANGES_S: Final = 1800.0
"""How long before the onset a change may have been to be named."""

_log = structlog.get_logger(__name__)

Keep = Callable[[Incident, Kept], None]


class Explaining:
    """Call it in place of `keep`."""

    def __init__(self, watch: FleetWatch, keep: Keep, clock: Callable[[], float] = monotonic) -> None:
        self._watch = watch
        self._keep = keep
        self._clock = clock

    def __repr__(self) -> str:
        return f"<Explaining {self._watch!r}>"

    def __call__(self, incident: Incident, kept: Kept) -> None:
        self._keep(self._explained(incident, kept), kept)

    def _explained(self, incident: Incident, kept: Kept) -> Incident:
        try:
            onset = self._clock() - incident.duration_s
            changes = self._watch.changes.since(onset - CHANGES_S)
            caches = kept.scene.engine.arguments.get("disable_radix_cache") is not True
            hints = explain(Evidence(incident, kept.facts, self._watch.view, changes, caches=caches))
        except Exception as error:  # noqa: BLE001 - a hint is not worth an incident
            _log.error("hints_failed", error=type(error).__name__, exc_info=error)
            return incident
        return msgspec.structs.replace(incident, hints=hints)
