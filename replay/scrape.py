"""Metrics of prefill, decode and router beside the load, and what they said when a request went out.

Each page is read every `PERIOD_S`; of its families those that say how a worker is doing are kept, counters
summed and gauges averaged over their series. A page that cannot be read is left out and counted.
"""

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import fsum
from typing import Final

from replay.pages import Site
from replay.results import Metric, Result
from service.core import exposition

PERIOD_S: Final = 1.0
COUNTER: Final = "_total"


class Scraper:
    """Reads some pages for as long as it is let."""

    def __init__(
        self, sites: Sequence[Site], now_s: Callable[[], float], keep: Callable[[Metric], None]
    ) -> None:
        self._sites = sites
        self._now_s = now_s
        self._keep = keep
        self.missed = 0

    def __repr__(self) -> str:
        return f"<Scraper of {len(self._sites)} pages, {self.missed} missed>"

    async def run(self, period_s: float = PERIOD_S) -> None:
        """Read all pages again and again."""
        try:
            while self._sites:
                await asyncio.gather(*map(self._read, self._sites))
                await asyncio.sleep(period_s)
        finally:
            for site in self._sites:
                await site.close()

    async def _read(self, site: Site) -> None:
        at_s, page = self._now_s(), await site.get()
        if page is None:
            self.missed += 1
        else:
            self._keep(Metric(at_s=round(at_s, 3), url=site.url, values=values_of(page)))


def values_of(page: bytes) -> dict[str, float]:
    """Families by name."""
    found: dict[str, list[float]] = defaultdict(list)
    for series in exposition.read(page.decode(errors="replace")).series:
        found[series.family].append(series.value)
    return {
        family: fsum(values) if family.endswith(COUNTER) else fsum(values) / len(values)
        for family, values in found.items()
    }


class Dose:
    """What was last said, by page, at any time of a run: the load that a request met."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._times: dict[str, list[float]] = defaultdict(list)
        self._values: dict[str, list[dict[str, float]]] = defaultdict(list)
        for metric in sorted(metrics, key=lambda one: one.at_s):
            self._times[metric.url].append(metric.at_s)
            self._values[metric.url].append(metric.values)

    def __repr__(self) -> str:
        return f"<Dose of {len(self._times)} pages>"

    def at(self, at_s: float) -> dict[str, dict[str, float]]:
        """By page; a page that had said nothing yet is left out."""
        places = {url: bisect_right(times, at_s) - 1 for url, times in self._times.items()}
        return {url: self._values[url][place] for url, place in places.items() if place >= 0}

    def of(self, result: Result) -> dict[str, dict[str, float]]:
        """When this request went out."""
        return self.at(result.sent_s)
