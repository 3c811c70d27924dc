"""Anchors: what a healthy draft is accepted with at least, by depth, for each kind of request.

Acceptance depends on the temperature, on grammars and on whether the answer copies its prompt; an anchor that
mixes them is wrong for all of them. Learned by `service.core.baseline`, used by the acceptance detector.
"""

from typing import Final

import msgspec

GREEDY: Final = 0.05
COOL: Final = 0.6
WARM: Final = 1.1

ANY: Final = "any"
"""The stratum of requests about which nothing narrower was learned."""


def stratum(temperature: float, *, grammar: bool, copying: bool = False) -> str:
    """The name of a kind of request; copying is known only once an answer has been seen."""
    if temperature <= GREEDY:
        heat = "greedy"
    elif temperature <= COOL:
        heat = "cool"
    else:
        heat = "warm" if temperature <= WARM else "hot"
    return f"{heat}/{'grammar' if grammar else 'free'}/{'copy' if copying else 'prose'}"


class Anchors(msgspec.Struct, frozen=True):
    """The anchors of one worker by model and stratum.

    `any` stands in for a model's other strata, the model "" for what was learned without a name.
    """

    by_kind: dict[tuple[str, str], tuple[float, ...]]  # by depth; the last holds for all depths beyond

    def of(self, model: str, temperature: float, *, grammar: bool) -> tuple[float, ...]:
        """For a request of this kind; empty where nothing was learned that covers it."""
        own = stratum(temperature, grammar=grammar)
        kinds = ((model, own), (model, ANY), ("", own), ("", ANY))
        return next((self.by_kind[kind] for kind in kinds if kind in self.by_kind), ())
