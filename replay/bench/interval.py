"""The interval of a share: Wilson's score interval, 95 %, which stays honest near 0 and 1."""

from math import sqrt
from typing import Final

Z: Final = 1.959964


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Lower and upper end; all of [0, 1] where nothing was counted."""
    if not count:
        return 0.0, 1.0
    share, z2 = hits / count, Z * Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z / (1 + z2 / count) * sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return round(max(middle - half, 0.0), 6), round(min(middle + half, 1.0), 6)
