"""Knobs are turned before their block, and never silently not."""

from math import inf

import pytest

from replay.control import ControlError, Controls, Order, orders_of
from replay.pages import Site
from replay.plan import Arm, Block, PlanHeader
from tests.fakes import ScriptedUpstream, Stop, answer
from tests.replay.runkit import LOCAL

TAKEN = answer(b"{}", kind=b"application/json")


def test_orders_are_those_of_the_arms_block_by_block() -> None:
    knobs = {"control": {"decode": {"fence": False}, "prefill": {"rate": 1}}}
    blocks = [
        Block(index=2, arm="bad", start_s=20.0, end_s=30.0),
        Block(index=0, arm="idle", start_s=0.0, end_s=10.0),
        Block(index=1, arm="bad", start_s=10.0, end_s=20.0),
    ]
    plan = PlanHeader(arms=[Arm(name="idle"), Arm(name="bad", knobs=knobs)], blocks=blocks)
    first = [Order(10.0, "decode", b'{"fence":false}'), Order(10.0, "prefill", b'{"rate":1}')]
    assert orders_of(plan) == [*first, *[order._replace(start_s=20.0) for order in first]]


async def test_the_gate_opens_order_by_order_for_all_workers_of_a_role() -> None:
    gates: list[float] = []
    async with ScriptedUpstream([TAKEN]) as one, ScriptedUpstream([TAKEN]) as two:
        sites = {"decode": [Site(server.url + "/c", LOCAL) for server in (one, two)]}
        controls = Controls([Order(0.0, "decode", b"1"), Order(0.2, "decode", b"2")], sites, lambda: 0.0)
        assert controls.gate_s == 0.0
        await controls.run(lambda: gates.append(controls.gate_s))
        assert [len(server.requests) for server in (one, two)] == [2, 2]
    assert gates == [0.2, inf]


async def test_an_order_that_is_refused_is_an_error() -> None:
    async with ScriptedUpstream([Stop.CLOSE]) as server:
        sites = {"decode": [Site(server.url + "/c", LOCAL)]}
        controls = Controls([Order(0.0, "decode", b"1")], sites, lambda: 0.0)
        with pytest.raises(ControlError, match="refused an order"):
            await controls.run(lambda: None)
        assert controls.gate_s == 0.0


def test_a_plan_with_knobs_asks_for_their_urls() -> None:
    with pytest.raises(ControlError, match="decode"):
        Controls([Order(0.0, "decode", b"1")], {"decode": []}, lambda: 0.0)


async def test_a_run_gone_on_with_gets_the_orders_in_force_and_none_before_them() -> None:
    times = (0.0, 10.0, 10.0, 20.0)
    async with ScriptedUpstream([TAKEN]) as server:
        sites = {"decode": [Site(server.url + "/c", LOCAL)]}
        orders = [Order(at_s, "decode", b"%d" % number) for number, at_s in enumerate(times)]
        controls = Controls(orders, sites, lambda: 100.0)
        controls.skip_to(12.5)
        assert controls.gate_s == 10.0
        await controls.run(lambda: None)
        assert [request[-1:] for request in server.requests] == [b"1", b"2", b"3"]


def test_a_run_from_its_start_gets_all_orders() -> None:
    controls = Controls(
        [Order(3.0, "decode", b"1")], {"decode": [Site("http://127.0.0.1:9/c", LOCAL)]}, lambda: 0.0
    )
    controls.skip_to(0.0)
    assert controls.gate_s == 3.0
