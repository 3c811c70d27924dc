"""Turns that wait are read, and what was found is counted once."""

from service.core.cache_watch import CacheKind, CacheWatch, SessionTurn
from service.core.events import Cached
from service.core.turns import Turns
from service.edges.cache_reader import CacheReader
from tests.service.edges.kept import Counts


async def test_what_waits_is_read_and_counted_once() -> None:
    turns, watch, counts = Turns(), CacheWatch(), Counts()
    reader = CacheReader(turns, watch, counts)
    prompt = " ".join(str(number) for number in range(4_000))
    for at, cached in enumerate((0, 0)):
        turns.offer(SessionTurn(prompt, "m", Cached(5_000, cached), float(at), "w"))
    await reader.read()
    await reader.read()
    assert counts.counted["cache_turns", "first"] == 1
    assert counts.counted["cache_turns", "continued"] == 1
    assert counts.counted["cache_findings", CacheKind.ZERO_HIT] == 1
    assert counts.counted["cache_turns", "skipped"] == 0
    assert [finding.kind for finding in watch.findings] == [CacheKind.ZERO_HIT]
