"""Reads the turns that wait for the cache watch, on the admin thread: hashing a prompt takes milliseconds."""

import asyncio
from collections import Counter
from typing import Final

from service.core.cache_watch import CacheKind, CacheWatch
from service.core.turns import Turns
from service.edges.catalogue import CACHE_TURNS
from service.edges.metrics import Counting

EVERY_S: Final = 1.0


class CacheReader:
    """`run` it on the loop that reads `watch`."""

    def __init__(self, turns: Turns, watch: CacheWatch, metrics: Counting) -> None:
        self._turns = turns
        self._watch = watch
        self._metrics = metrics
        self._told: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<CacheReader {self._turns!r} {self._watch!r}>"

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.read()

    async def read(self) -> None:
        """All that waits, the loop's other work in between."""
        for turn in self._turns.take():
            self._watch.read(turn)
            await asyncio.sleep(0)
        self._tell()

    def _tell(self) -> None:
        now = Counter(self._watch.counts)
        now["skipped"] = self._turns.skipped
        for name in CACHE_TURNS:
            self._metrics.count("cache_turns", name, by=now[name] - self._told[name])
        for kind in CacheKind:
            self._metrics.count("cache_findings", kind, by=now[kind] - self._told[kind])
        self._told = now
