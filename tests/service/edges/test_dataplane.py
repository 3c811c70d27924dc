"""The data loop wired from settings, served by the real server."""

import gc
from collections.abc import Iterator

import pytest

from service.config.settings import Settings, WorkerHint
from service.core.events import Drafter
from service.edges.dataplane import DataPlane, upstream_of
from service.edges.outlet import Sending
from service.edges.upstream_aiohttp import AiohttpUpstream
from service.edges.upstream_raw import RawUpstream
from tests.fakes import ScriptedClient, ScriptedUpstream
from tests.guarding import CHAT, body, chat, head, new_desk, pieces
from tests.serving import serving
from tests.waiting import until


@pytest.fixture(autouse=True)
def _the_collector_as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


async def test_a_started_plane_serves_and_a_stopped_one_leaves_nothing() -> None:
    ticks: list[float] = []
    async with ScriptedUpstream([head(), *pieces(*chat("hello"))]) as router:
        settings = Settings(router=router.url)
        plane = DataPlane(settings, new_desk(), lambda _, __: None, on_tick=ticks.append)
        await plane.start()
        assert plane.proxy.means.sending is Sending.DIRECT
        async with serving(plane.proxy) as running:
            client = await ScriptedClient.connect(running.port)
            await client.post(CHAT, body())
            assert (await client.response())[2].endswith(b"data: [DONE]\n\n")
            await until(lambda: ticks)
            client.leave()
        await plane.stop()
        assert ticks
        assert len(plane.proxy.means.tasks) == 0
        assert not plane.proxy.accepting


async def test_what_the_owner_knows_of_a_worker_is_known_from_the_start() -> None:
    hint = WorkerHint(url="http://w:1", drafter=Drafter.MODEL, draft_tokens=3)
    plane = DataPlane(Settings(router="http://r:1", workers=(hint,)), new_desk(), lambda _, __: None)
    facts = plane.desk.fleet.worker("http://w:1")
    assert (facts.drafter, facts.draft_tokens) == (Drafter.MODEL, 3)
    await plane.stop()


async def test_the_client_behind_the_seam_is_a_setting() -> None:
    raw = upstream_of(Settings(router="http://r:1"))
    other = upstream_of(Settings(router="http://r:1", upstream="aiohttp"))
    assert isinstance(raw, RawUpstream)
    assert isinstance(other, AiohttpUpstream)
    await other.close()


async def test_the_server_is_configured_by_the_settings() -> None:
    plane = DataPlane(Settings(router="http://r:1", data_port=8123), new_desk(), lambda _, __: None)
    assert (plane.config().host, plane.config().port) == ("127.0.0.1", 8123)
    await plane.stop()
