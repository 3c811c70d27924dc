"""Ten thousand scheduler steps a second of 64 requests each are read on less than half a core."""

from service.edges.collectors.bench import KEY, REQUESTS, ROUNDS, STEPS_A_SECOND, WORKERS, measure


async def test_reading_stays_within_its_budget() -> None:
    for key in (b"", KEY):
        spent_us, feed = await measure(key)
        assert feed.counts["rows"] == ROUNDS * WORKERS * REQUESTS
        assert feed.counts["gaps"] == 0
        assert spent_us * STEPS_A_SECOND / 1e6 < 0.5
