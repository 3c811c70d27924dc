"""Several questions to one run: Holm's step-down adjustment (1979), valid however the questions depend.

One contrast is declared before the run and is tested as it is; every other detector, level and slice is
adjusted, so that asking more never finds more by chance.
"""

from collections.abc import Mapping


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values under their names."""
    adjusted: dict[str, float] = {}
    worst = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda one: one[1])):
        worst = max(worst, min(1.0, p * (len(p_values) - place)))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p_values}
