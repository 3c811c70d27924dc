"""What LayerSplit gains at a prompt length: a model with two free numbers, fitted to three published points.

    x = tokens / capacity                  share of a rank's KV memory that a prompt takes, unsplit
    slowdown(x) = 1 + a * (x / (1 - x))^b  what the shortage of memory costs: the shape of a queue's wait
    gain(tokens) = slowdown(x) / slowdown(x / R) - 1

Published (the GLM-5 postmortem): +10 %, +41 %, +132 % throughput at 40, 80 and 120 thousand tokens, and 25,
50 and 75 % of memory, read here as the share that an unsplit prompt takes: it is exactly proportional to the
length, a capacity of 160,000 tokens. The number of ranks was not published; the fit is made for the R that
is asked for. Three points and two free numbers leave one degree of freedom, so the residuals say little: a
way to interpolate, no measurement of ours, and nothing to extrapolate far with. The cost of the broadcast is
in the points and not apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

DEFAULT_RANKS = 8

LABEL = "a model fitted to three published points, not a measurement"


@dataclass(frozen=True, slots=True)
class Point:
    """One published figure."""

    tokens: int
    gain: float
    memory: float


PUBLISHED = (Point(40_000, 0.10, 0.25), Point(80_000, 0.41, 0.50), Point(120_000, 1.32, 0.75))

FULLEST = 0.99
"""Above this share of memory an unsplit prompt does not run, and there is no gain to speak of."""


class PlanError(ValueError):
    """The client's: a question that the model has no answer to."""


@dataclass(frozen=True, slots=True)
class CapacityModel:
    """The fitted numbers."""

    ranks: int
    capacity_tokens: float
    a: float
    b: float

    @classmethod
    def fitted(cls, ranks: int = DEFAULT_RANKS, points: Sequence[Point] = PUBLISHED) -> "CapacityModel":
        """Fit capacity to the memory shares, a and b to the gains (relative errors, least squares)."""
        if ranks < 2:  # noqa: PLR2004 (one rank splits nothing)
            raise PlanError(f"{ranks} ranks split nothing; there must be two or more")
        tokens = np.array([point.tokens for point in points], float)
        memory = np.array([point.memory for point in points])
        capacity = float((tokens**2).sum() / (tokens * memory).sum())
        gains = np.array([point.gain for point in points])

        def misses(free: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Any:  # noqa: ANN401 (scipy's own)
            model = cls(ranks, capacity, *np.exp(free).tolist())
            return [model.gain(point) / gain - 1 for point, gain in zip(tokens, gains, strict=True)]

        found = least_squares(misses, np.log([0.4, 1.2]))
        return cls(ranks, capacity, *np.exp(found.x).tolist())

    def memory(self, tokens: float) -> float:
        """Share of a rank's KV memory that an unsplit prompt takes."""
        return tokens / self.capacity_tokens

    def gain(self, tokens: float) -> float:
        """Throughput with LayerSplit over without, less 1."""
        x = self.memory(tokens)
        if not 0 < x <= FULLEST:
            most = int(FULLEST * self.capacity_tokens)
            raise PlanError(f"{tokens:g} tokens: unsplit prompts have 1 to {most} tokens in this model")
        return self._slowdown(x) / self._slowdown(x / self.ranks) - 1

    def _slowdown(self, x: float) -> float:
        return 1 + self.a * float((x / (1 - x)) ** self.b)


def plan(ranks: int, tokens: Sequence[int]) -> dict[str, Any]:
    """Return the fitted model, how it meets the published points, and its answers."""
    model = CapacityModel.fitted(ranks)
    lengths = tokens or [point.tokens for point in PUBLISHED]
    return {
        "what": LABEL,
        "ranks": ranks,
        "capacity_tokens": round(model.capacity_tokens),
        "a": round(model.a, 4),
        "b": round(model.b, 4),
        "published": [
            {
                "tokens": point.tokens,
                "gain": point.gain,
                "gain_model": round(model.gain(point.tokens), 3),
                "memory": point.memory,
                "memory_model": round(model.memory(point.tokens), 3),
            }
            for point in PUBLISHED
        ],
        "plan": [
            {
                "tokens": length,
                "gain": round(model.gain(length), 3),
                "memory_unsplit": round(model.memory(length), 3),
                "memory_split": round(model.memory(length) / ranks, 3),
            }
            for length in lengths
        ],
    }
