"""What a worker's own account of its acceptance is worth: read before it is compared with anything.

Accept length counts the bonus token: 1.0 is "nothing accepted", 0.0 is "no data", and full acceptance of k
drafts is k + 1. A rate above 1 (engines before 0.5.4) is no rate. Where the width of a verify step changes
(adaptive or ragged), `correct / (steps x (configured - 1))` understates the rate: it is approximate, and the
true one needs the widths. And a gauge stays at its last value when nothing runs: it is fresh only if a
counter of the same worker has moved since the scrape before.

These readings are of a worker over minutes. None of them may abort, retry or quarantine anything: low
acceptance with right text is a slow worker, full acceptance of a text that was asked for is a good one.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

FULL_RATE: Final = 0.96
"""z.ai's published limit; here no more than a reason to look at the text."""
LOW_LENGTH: Final = 1.05
"""Of a whole worker over minutes: one draft token in twenty steps is no speculation."""
RATE_SLACK: Final = 1e-6


class Quality(StrEnum):
    VALID = "valid"
    APPROXIMATE = "approximate"
    INVALID = "invalid_metric"
    NO_DATA = "no_data"


class Reading(StrEnum):
    """What is to be said of a worker's acceptance."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"  # confirm with the text before anything is done
    SPEC_PERFORMANCE = "alert:spec_performance"
    INVALID = "invalid_metric"
    NO_DATA = "no_data"


class SpecSample(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker reports; NaN and 0 are "not told"."""

    accept_length: float = math.nan
    accept_rate: float = math.nan
    per_position: tuple[float, ...] = ()
    verify_steps: int = 0
    correct_drafts: int = 0
    draft_tokens: int = 0  # as configured, the step's root included
    mean_width: float = math.nan  # of a verify step as it ran, the root included

    @property
    def quality(self) -> Quality:
        numbers = [self.accept_length, self.accept_rate, *self.per_position]
        if any(math.isinf(number) or number < 0 for number in numbers):
            return Quality.INVALID
        if self.accept_rate > 1 + RATE_SLACK or 0 < self.accept_length < 1 - RATE_SLACK:
            return Quality.INVALID
        if self.draft_tokens and not math.isnan(self.mean_width) and self.mean_width != self.draft_tokens:
            return Quality.APPROXIMATE
        return Quality.NO_DATA if math.isnan(self.length) else Quality.VALID

    @property
    def length(self) -> float:
        """Accept length, from whatever tells it; NaN without."""
        if self.accept_length > 0:
            return self.accept_length
        if self.verify_steps:
            return 1 + self.correct_drafts / self.verify_steps
        if self.per_position:
            return 1 + sum(self.per_position)
        return math.nan

    @property
    def reported_rate(self) -> float:
        """Accepted of proposed drafts, as engines compute it: over the configured width."""
        if not math.isnan(self.accept_rate):
            return self.accept_rate
        return self._rate(self.draft_tokens)

    @property
    def rate(self) -> float:
        """Accepted of drafts really proposed; NaN where that cannot be known."""
        if not math.isnan(self.mean_width):
            return self._rate(self.mean_width)
        if math.isnan(self.reported_rate) and self.per_position:
            return sum(self.per_position) / len(self.per_position)
        return self.reported_rate

    def _rate(self, width: float) -> float:
        drafts = self.verify_steps * (width - 1)
        return self.correct_drafts / drafts if drafts > 0 else math.nan


def judge(sample: SpecSample, *, repetition_asked_for: bool = False) -> Reading:
    """A worker's acceptance over minutes. With a prompt that asks for repetition, full acceptance is fine."""
    match sample.quality:
        case Quality.INVALID:
            return Reading.INVALID
        case Quality.NO_DATA if math.isnan(sample.rate) or sample.accept_length == 0:
            return Reading.NO_DATA
        case _:
            if sample.length <= LOW_LENGTH or sample.rate == 0:
                return Reading.SPEC_PERFORMANCE
            full = sample.rate > FULL_RATE and not repetition_asked_for
            return Reading.SUSPECT if full else Reading.HEALTHY


class Freshness:
    """Tells gauges that move from gauges that were left behind, by the counters scraped beside them."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: Mapping[str, float] | None = None

    def see(self, counters: Mapping[str, float]) -> bool:
        """Whether the gauges of this scrape say anything new: some counter has moved since the last."""
        last, self._last = self._last, {k: v for k, v in counters.items() if math.isfinite(v)}
        if last is None:
            return False  # one look shows no movement
        return any(last.get(name, value) != value for name, value in self._last.items())
