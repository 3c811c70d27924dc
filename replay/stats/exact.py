"""Rates of rare events with exact intervals.

    interval   Clopper and Pearson (1934): the rates that a two-sided test at this count would not refuse
    upper      the same, one-sided: no event among n gives 3/n at 95 % (the rule of three)

Never covers less than it says, whatever the counts; approximations fail at the 0 to 10 events that matter
here. Counts may be fractions: clustered events are told as the smaller number that carries the same
information (`replay.stats.clusters`). Cost: two inverse beta functions, some microseconds.
"""

from dataclasses import dataclass
from typing import Final

from scipy.special import betainc, betaincinv

PER: Final = 10_000
"""Rates are told per so many requests."""

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """Events among trials."""

    events: float
    trials: float

    def __post_init__(self) -> None:
        """Refuse counts that cannot be."""
        if not 0 <= self.events <= self.trials or self.trials <= 0:
            raise ValueError(f"{self.events} events of {self.trials} trials")

    @property
    def share(self) -> float:
        return self.events / self.trials

    @property
    def per_10k(self) -> float:
        return self.share * PER

    def lower(self, confidence: float = CONFIDENCE) -> float:
        """The one-sided lower bound of the share."""
        if self.events == 0:
            return 0.0
        return float(betaincinv(self.events, self.trials - self.events + 1, 1 - confidence))

    def upper(self, confidence: float = CONFIDENCE) -> float:
        """The one-sided upper bound of the share."""
        if self.events == self.trials:
            return 1.0
        return float(betaincinv(self.events + 1, self.trials - self.events, confidence))

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The two-sided interval of the share."""
        one_sided = (1 + confidence) / 2
        return self.lower(one_sided), self.upper(one_sided)

    def interval_per_10k(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        low, high = self.interval(confidence)
        return low * PER, high * PER

    def shrunk(self, effect: float) -> "Rate":
        """The same rate from `effect` times fewer independent trials."""
        return Rate(self.events / effect, self.trials / effect)


def at_least(events: int, trials: int, share: float) -> float:
    """How probable so many events or more are."""
    if not 0 < events <= trials:
        return 1.0 if events <= 0 else 0.0
    return float(betainc(events, trials - events + 1, share))


def exactly(events: int, trials: int, share: float) -> float:
    return at_least(events, trials, share) - at_least(events + 1, trials, share)
