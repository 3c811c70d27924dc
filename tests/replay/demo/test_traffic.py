"""Agents at work: limits are kept, every exchange is counted once."""

from replay.demo.client import End
from replay.demo.traffic import Limits, Tally, Traffic
from tests.fakes import ScriptedUpstream, answer
from tests.replay.demo.made import WRONG, ask, delivery

REFUSAL = answer(b'{"error":{"type":"busy"}}', head=b"HTTP/1.1 503 Service Unavailable\r\n")


async def test_no_more_requests_are_sent_than_asked_for() -> None:
    async with ScriptedUpstream([REFUSAL]) as server:
        traffic = Traffic(server.url, 1, Limits(seconds=30, requests=7, agents=3))
        exchanges = await traffic.run()
        assert len(server.requests) == len(exchanges) == traffic.tally.done == traffic.tally.loud == 7
    assert len({asked.rid for asked, _ in exchanges}) == 7


async def test_nothing_new_begins_once_time_is_up() -> None:
    async with ScriptedUpstream([1.2, REFUSAL]) as server:
        traffic = Traffic(server.url, 1, Limits(seconds=1.0, agents=4))
        exchanges = await traffic.run()
        assert len(exchanges) == traffic.tally.started == 4


async def test_a_slow_run_goes_on_until_it_has_enough_or_the_stretch_is_over() -> None:
    async with ScriptedUpstream([0.02, REFUSAL]) as server:
        enough = await Traffic(server.url, 1, Limits(seconds=0.01, agents=2, fewest=6, stretch_s=30)).run()
        short = await Traffic(server.url, 1, Limits(seconds=0.01, agents=2, fewest=600, stretch_s=1.0)).run()
    assert len(enough) in {6, 7}
    assert 2 <= len(short) < 200


async def test_agents_work_at_once() -> None:
    async with ScriptedUpstream([0.6, REFUSAL]) as server:
        await Traffic(server.url, 1, Limits(seconds=0.5, agents=5)).run()
        assert server.connections == 5


def test_the_tally_tells_right_from_wrong_from_loud() -> None:
    tally = Tally()
    tally.add(ask("a"), delivery("a"))
    tally.add(ask("b"), delivery("b", by="c"))
    tally.add(ask("d"), delivery("d", WRONG))
    tally.add(ask("e"), delivery("e", "", by="", end=End.STATUS))
    assert (tally.done, tally.right, tally.wrong, tally.loud, tally.again) == (4, 2, 1, 1, 1)
