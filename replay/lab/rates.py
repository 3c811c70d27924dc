"""The exact test of one rate above another where events are no longer rare: Fisher's, one-sided.

Rates and their intervals are those of `replay.stats.exact`. The verdicts of replay use the conditional
binomial test, which is right for Poisson counts and cautious here; the curve's answers are Bernoulli trials,
and at a few in a hundred the difference shows.
"""

import numpy as np
from scipy.stats import fisher_exact

from replay.stats.exact import Rate


def p_above(high: Rate, low: Rate) -> float:
    """How probable a difference like this, or a larger one, is if both rates are the same."""
    table = np.array(
        [[high.events, high.trials - high.events], [low.events, low.trials - low.events]], np.int64
    )
    return float(fisher_exact(table, alternative="greater").pvalue)
