"""The registry: every detector by its name in the rule set, and how a rule set becomes detectors and fusion.

A detector's parameters are its dataclass fields, all required: the numbers live in `rules/sets/*.yaml`. One
that a rule set leaves out is off.
"""

from collections.abc import Mapping
from typing import Any, Final

from service.core.detectors.acceptance import Acceptance
from service.core.detectors.crosstalk import Crosstalk
from service.core.detectors.garble import Garble
from service.core.detectors.loop import Loop
from service.core.detectors.protocol import Detector
from service.core.detectors.rarity import Rarity
from service.core.detectors.salad import Salad
from service.core.detectors.saturation import Saturation
from service.core.detectors.seam import Seam
from service.core.detectors.silence import Silence
from service.core.detectors.structure import Structure
from service.core.detectors.stutter import Stutter
from service.core.detectors.unseen import Unseen
from service.core.detectors.zai import Zai
from service.core.fusion import Fusion

_ALL: Final[tuple[Any, ...]] = (
    Acceptance, Saturation, Loop, Stutter, Garble, Rarity, Salad, Seam, Structure, Silence, Unseen, Crosstalk,
    Zai,
)  # fmt: skip
DETECTORS: Final[Mapping[str, type[Any]]] = {detector.name: detector for detector in _ALL}
"""In the order in which an inspection asks them."""


def build(rules: Mapping[str, Any]) -> tuple[tuple[Detector[Any], ...], Fusion]:
    """Detectors and fusion of a validated rule set; a missing or unknown parameter is a TypeError."""
    chosen = rules["detectors"]
    detectors = tuple(detector(**chosen[name]) for name, detector in DETECTORS.items() if name in chosen)
    return detectors, Fusion(**rules["fusion"])
