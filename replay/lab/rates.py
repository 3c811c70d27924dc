"""Rates of rare events: exact intervals and the exact test of one rate above another.

    interval    Clopper and Pearson (1934): never covers less than it says, whatever the counts
    above       Fisher's exact test on the two-by-two table, one-sided

Both are exact at the counts that matter here, 0 to 100 events among thousands, where approximations are not.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, fisher_exact

PER = 10_000
"""Rates are told per so many requests."""

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """Events among trials."""

    events: int
    trials: int

    def __post_init__(self) -> None:
        """Refuse counts that cannot be."""
        if not 0 <= self.events <= self.trials or self.trials == 0:
            raise ValueError(f"{self.events} events of {self.trials} trials")

    @property
    def per_10k(self) -> float:
        """Events per 10,000."""
        return self.events / self.trials * PER

    @property
    def interval_per_10k(self) -> tuple[float, float]:
        """Two-sided 95 % interval per 10,000."""
        found = binomtest(self.events, self.trials).proportion_ci(CONFIDENCE, method="exact")
        return float(found.low) * PER, float(found.high) * PER

    def covers(self, per_10k: float) -> bool:
        """Whether the interval holds this rate."""
        low, high = self.interval_per_10k
        return low <= per_10k <= high


def p_above(high: Rate, low: Rate) -> float:
    """How probable a difference like this, or a larger one, is if both rates are the same."""
    table = np.array(
        [[high.events, high.trials - high.events], [low.events, low.trials - low.events]], np.int64
    )
    return float(fisher_exact(table, alternative="greater").pvalue)
