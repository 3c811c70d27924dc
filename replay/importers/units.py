"""Two units in one column of times: seconds here, milliseconds there.

    rows thrown back    most rows that are out of order lie within the first hundredth of the time so far:
                        they count in another unit
    a change of pace    from one row on, gaps are a thousand (or a million) times longer or shorter, within a
                        factor of two

And one unit that is not the one that is assumed:

    an odd rate         a thousand requests a second and more, or less than one in a quarter of an hour

None of that happens to traffic: a shuffled file throws one late row in a hundred so far back, and no fleet
changes its rate a thousandfold for good. What is found is asked about, not mended.

Cost: some array operations over all times, 10 ns a row each.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FAR: Final = 100.0
"""A row is thrown back if it lies within this part of the time so far."""
FAR_SHARE: Final = 0.5
"""Of the rows out of order; of a shuffled file it is some hundredths."""
FEWEST_FAR: Final = 3
FEWEST_GAPS: Final = 20
"""On either side of a change of pace."""
STEPS: Final = (1e3, 1e6)
WITHIN: Final = 2.0
RATE_MIN, RATE_MAX = 0.001, 1000.0
"""Requests a second; no published trace comes near either."""
FEWEST_ROWS: Final = 20
"""Rows under which a rate says nothing."""

Times = NDArray[np.floating[Any]]


def mixed(times: Times) -> str:
    """How a column of times, as the file has them, seems to hold two units; "" where it does not."""
    if len(times) < FEWEST_FAR:
        return ""
    since = times - times.min()
    thrown = _thrown_back(since)
    if len(thrown) >= FEWEST_FAR:
        return (
            f"{len(thrown)} rows, the first of them row {thrown[0] + 1}, lie far before the rows around them"
        )
    return _change_of_pace(since)


def odd_rate(times: Times) -> str:
    """How the rate of these requests looks like that of another unit; "" where it does not."""
    span_s = float(np.ptp(times)) if len(times) >= FEWEST_ROWS else 0.0
    if not span_s or RATE_MIN <= len(times) / span_s <= RATE_MAX:
        return ""
    return f"{len(times)} requests come in {span_s:,.3f} s"


def _thrown_back(since: Times) -> NDArray[np.intp]:
    """Rows out of order that lie at the very beginning; none unless most of those out of order do."""
    so_far = np.maximum.accumulate(since)
    late = np.flatnonzero(since < so_far)
    far = late[since[late] < so_far[late] / FAR]
    return far if len(far) >= FAR_SHARE * len(late) else far[:0]


def _change_of_pace(since: Times) -> str:
    gaps = np.diff(since)
    rows = np.flatnonzero(gaps > 0)
    if len(rows) < 2 * FEWEST_GAPS:
        return ""
    logs = np.log(gaps[rows])
    drift = np.abs(np.cumsum(logs - logs.mean()))  # largest where the level changes
    split = int(drift[FEWEST_GAPS - 1 : len(rows) - FEWEST_GAPS].argmax()) + FEWEST_GAPS
    step = float(np.exp(abs(np.median(logs[split:]) - np.median(logs[:split]))))
    if not any(known / WITHIN <= step <= known * WITHIN for known in STEPS):
        return ""
    return f"from row {rows[split] + 1} on, the time between rows is {step:,.0f} times another"
