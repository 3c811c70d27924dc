"""Evidence that may be looked at at any time: an e-process on the arms' labels.

Each event is a coin: if load does not matter it falls into the high arm with probability q, that arm's share
of the trials among which it came. A bet that the rate ratio is r multiplies the stake by

    r / (1 - q + r q)   for an event of the high arm,      1 / (1 - q + r q)   for one of the low arm,

whose mean is 1 where load does not matter. The bets run over a grid, u uniform on (1/2, 1), r = u / (1 - u);
their mean is again a fair game (Ville 1939: it reaches 20 with probability 1/20 at most, however often one
looks). With q = 1/2 it is the one-sided uniform mixture of the textbooks: 10.5 after five events, all high.

Arms must be interleaved at random, or q is not known. Events must be incidents: clusters are one coin each.
"""

from math import exp, log
from typing import Final

import numpy as np

BETS: Final = 256
"""Midpoints of the grid; at 256 the mean differs from the integral by less than 1 in 10,000."""

SHOWN: Final = 20.0
"""An e-value that chance reaches once in twenty runs at most."""

_U: Final = 0.5 + (np.arange(BETS) + 0.5) / (2 * BETS)
_RATIOS: Final = _U / (1 - _U)


class EProcess:
    """One stake on "the high arm's rate is higher"."""

    __slots__ = ("_log_stakes",)

    def __init__(self) -> None:
        self._log_stakes = np.zeros(BETS)

    def __repr__(self) -> str:
        return f"<EProcess {self.value:.3g}>"

    @property
    def value(self) -> float:
        top = float(self._log_stakes.max())
        return exp(min(700.0, top + log(float(np.exp(self._log_stakes - top).mean()))))

    def see(self, share: float, *, high: bool) -> float:
        """Take one event in; `share` of the trials were the high arm's. The e-value now."""
        if not 0 < share < 1:
            raise ValueError(f"share {share} is not between 0 and 1")
        self._log_stakes += (np.log(_RATIOS) if high else 0.0) - np.log(1 - share + _RATIOS * share)
        return self.value
