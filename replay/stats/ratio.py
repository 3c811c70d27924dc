"""Two rates compared: the exact conditional test, the interval of the ratio, a bound on the difference.

    test        given K events in both arms together, those of the high arm are Binomial(K, its share of the
                trials) if the rates are the same; one-sided (Przyborowski and Wilenski 1940)
    ratio       the Clopper-Pearson interval of that share s, told as s / (1 - s) x n_low / n_high
    difference  MOVER (Zou and Donner 2008) from exact one-sided limits:
                d + sqrt((upper_high - high)^2 + (low - lower_low)^2)

The first two are exact for Poisson counts and keep what they promise for rare Bernoulli events too, whose
spread is smaller. `mid_p` counts half of the observed table: what a less strict reader would say. The
bound on the difference is an approximation made of exact parts; with no event at all it is the rule of three.
"""

from dataclasses import dataclass
from math import hypot, inf, nan

from replay.stats.exact import CONFIDENCE, Rate, at_least, exactly


@dataclass(frozen=True, slots=True)
class Contrast:
    """A high arm against a low one."""

    p: float
    mid_p: float
    ratio: float
    ratio_low: float
    ratio_high: float


def contrast(high: Rate, low: Rate, confidence: float = CONFIDENCE) -> Contrast:
    """Whether the high arm's rate is above the low one's; whole counts."""
    events, total = int(high.events), int(high.events + low.events)
    if total == 0:
        return Contrast(1.0, 1.0, nan, 0.0, inf)
    null = high.trials / (high.trials + low.trials)
    p = at_least(events, total, null)
    low_share, high_share = Rate(events, total).interval(confidence)
    exposure = low.trials / high.trials
    return Contrast(
        p=p,
        mid_p=p - exactly(events, total, null) / 2,
        ratio=_odds(events / total) * exposure,
        ratio_low=_odds(low_share) * exposure,
        ratio_high=_odds(high_share) * exposure,
    )


def difference_upper(high: Rate, low: Rate, confidence: float = CONFIDENCE) -> float:
    """The one-sided upper bound of the high share minus the low one."""
    return (
        high.share - low.share + hypot(high.upper(confidence) - high.share, low.share - low.lower(confidence))
    )


def _odds(share: float) -> float:
    return inf if share >= 1 else share / (1 - share)
