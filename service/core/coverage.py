"""For how many streams acceptance is known, and how well: one word an attempt, aged by attempts.

    exact   the probe named every verify step           upper  growth of tokens: steps may be merged
    gapped  the probe named steps, some were lost       none   nobody told anything

Recent attempts count more: their weight halves after `HALF_LIFE`. There is no clock. Per worker only the
newest word is kept, for the metric that names its source. Cost: 0.5 us an attempt.
"""

from typing import Final

HOW: Final = ("exact", "gapped", "upper", "none")
HALF_LIFE: Final = 200.0
WORKERS_MAX: Final = 1024
_KEEP: Final = 0.5 ** (1 / HALF_LIFE)


class Coverage:
    """The words of recent attempts."""

    __slots__ = ("_weights", "sources")

    def __init__(self) -> None:
        self._weights = dict.fromkeys(HOW, 0.0)
        self.sources: dict[str, str] = {}  # by worker

    def __repr__(self) -> str:
        return f"<Coverage {self.ratios()}>"

    def over(self, worker: str, how: str) -> None:
        """An attempt that this worker answered is over."""
        for name in HOW:
            self._weights[name] *= _KEEP
        self._weights[how] += 1.0
        if worker and (worker in self.sources or len(self.sources) < WORKERS_MAX):
            self.sources[worker] = how

    def ratios(self) -> dict[str, float]:
        """The share of each; nothing before the first attempt."""
        total = sum(self._weights.values())
        return {name: weight / total for name, weight in self._weights.items()} if total else {}
