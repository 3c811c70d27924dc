"""What all streams of one process share: budgets, the fleet, the memory account, and plain counters.

Counters are plain ints in a dictionary because a Prometheus child costs half a microsecond a call and the
stream path has few to spend; the edge drains them into the registry on its ticker.
"""

from collections.abc import Container, Sequence
from typing import Any, Final

from service.core.coverage import Coverage
from service.core.detectors.acceptance import Acceptance, learned
from service.core.detectors.protocol import Detector
from service.core.events import Policy, RequestFacts, WorkerFacts
from service.core.fleet import Fleet
from service.core.fleet_watch import FleetWatch
from service.core.fusion import Fusion
from service.core.governor import Governor
from service.core.groundtruth import GroundTruth
from service.core.inspector import Inspector
from service.core.probe_feed import ProbeFeed
from service.core.retry import RetryBudget
from service.core.vocabulary import Vocabularies

HELD_BYTES_MAX: Final = 256 * 1024 * 1024
"""All streams together: a sidecar must not be the reason its gateway's node runs out of memory."""
UNARMED: Final = frozenset({Acceptance.name})
"""What `protect` does not act upon before it was calibrated."""

SAMPLES_MAX: Final = 4096
"""Observations kept between two drains; more are counted, not kept."""


class Desk:
    """Built once by the composition root; every monitor holds it."""

    __slots__ = (
        "budget",
        "counts",
        "coverage",
        "detectors",
        "fleet",
        "fusion",
        "governor",
        "ground",
        "held_bytes",
        "held_max",
        "observing",
        "probes",
        "samples",
        "vocabularies",
        "watch",
    )

    def __init__(
        self,
        detectors: Sequence[Detector[Any]],
        fusion: Fusion,
        *,
        governor: Governor | None = None,
        held_max: int = HELD_BYTES_MAX,
        offline: Container[str] = (),
    ) -> None:
        self.detectors = tuple(detectors)
        self.observing = tuple(one for one in self.detectors if one.name not in offline)
        self.fusion = fusion
        self.governor = governor or Governor()
        self.budget = RetryBudget()
        self.fleet = Fleet()
        self.watch = FleetWatch()
        self.coverage = Coverage()
        self.ground = GroundTruth()
        self.vocabularies = Vocabularies()
        self.probes: ProbeFeed | None = None  # None where nothing listens for probes
        self.held_bytes = 0
        self.held_max = held_max
        self.counts: dict[tuple[str, ...], int] = {}
        self.samples: dict[str, list[float]] = {}

    def __repr__(self) -> str:
        return f"<Desk {self.held_bytes} bytes held, {self.budget!r}, {self.governor!r}>"

    def inspector(self, policy: Policy, facts: RequestFacts, worker: WorkerFacts) -> Inspector:
        """Who looks at one generation; by fewer detectors where nobody holds it.

        `protect` lets acceptance have its say where a calibration covers the request, and not on a safe
        guess: there a draft that is merely poor would hold streams, and answers would be generated twice.
        It is asked all the same, for of many streams a low one shows that the draft is broken.
        """
        asked = self.observing if policy is Policy.OBSERVE else self.detectors
        unarmed = policy is Policy.PROTECT and not learned(facts, worker)
        return Inspector(facts, worker, asked, self.fusion, unarmed=UNARMED if unarmed else frozenset())

    def count(self, *key: str, by: int = 1) -> None:
        """Add to the counter `key[0]` with the label values `key[1:]`."""
        self.counts[key] = self.counts.get(key, 0) + by

    def sample(self, name: str, value: float) -> None:
        """Keep one observation for the histogram `name`; past the bound it is counted as lost."""
        values = self.samples.setdefault(name, [])
        if len(values) < SAMPLES_MAX:
            values.append(value)
        else:
            self.count("samples_dropped")

    def drain(self) -> tuple[dict[tuple[str, ...], int], dict[str, list[float]]]:
        """Hand over what was counted since the last call."""
        counts, samples = self.counts, self.samples
        self.counts, self.samples = {}, {}
        return counts, samples
