"""Levels: which arm runs when.

Load that only ever rises cannot be told from time that passes: caches fill, memory warms, and one report's
corruption grew with the number of requests served. So each round runs every arm once, in an order drawn by
lot, and the last block goes back to the first arm. Two rounds with the same order are chance, not a mistake.
"""

from collections.abc import Iterator, Sequence
from random import Random

from replay.plan import RETURN, Arm


def rounds(arms: Sequence[Arm], count: int, seed: int) -> Iterator[tuple[int, Arm]]:
    """Round and arm of each block in the order of the run."""
    random = Random(f"rounds {seed}")
    for number in range(count):
        for arm in random.sample(list(arms), len(arms)):
            yield number, arm
    yield RETURN, arms[0]
