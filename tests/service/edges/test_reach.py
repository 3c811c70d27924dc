"""A router that accepts is up, one that does not is down, and the change is seen."""

import asyncio

import pytest

from service.edges.health import Health
from service.edges.reach import accepts, watch_router
from tests.fakes import ScriptedUpstream
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_closed_port_does_not_accept() -> None:
    assert not await accepts("127.0.0.1", 1)
    assert not await accepts("no-such-host.invalid", 80)


async def test_the_watch_sees_the_router_go() -> None:
    health = Health(fails_closed=True)
    async with asyncio.TaskGroup() as group:
        async with ScriptedUpstream([]) as router:
            watch = group.create_task(watch_router(router.url, health, every_s=0.02))
            await until(lambda: health.router_up is True)
        await until(lambda: health.router_up is False)
        watch.cancel()
