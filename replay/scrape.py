"""Metrics of prefill, decode and router beside the load, and joined to each request that goes out.

Each page is read every `PERIOD_S`; of its families those that say how a worker is doing are kept, counters
summed and gauges averaged over their series. A page that cannot be read is left out and counted.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import fsum
from typing import Final

from replay.pages import Site
from replay.results import Metric
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


JOINED: Final = frozenset(
    {
        "num_running_reqs",
        "num_queue_reqs",
        "num_requests_running",
        "num_requests_waiting",
        "token_usage",
        "spec_accept_length",
        "num_prefill_bootstrap_queue_reqs",
        "num_prefill_inflight_queue_reqs",
        "num_decode_prealloc_queue_reqs",
        "num_decode_transfer_queue_reqs",
    }
)
"""Gauges that say what load a request meets."""


class Latest:
    """What every page said last: the load that a request meets when it goes out."""

    def __init__(self) -> None:
        self.met: dict[str, dict[str, float]] = {}

    def __repr__(self) -> str:
        return f"<Latest of {len(self.met)} pages>"

    def note(self, metric: Metric) -> None:
        """A page has been read. `met` is made anew, so that who holds the old one keeps it."""
        gauges = {family: value for family, value in metric.values.items() if family in JOINED}
        self.met = {**self.met, metric.url: gauges}
