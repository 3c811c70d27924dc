"""A head is bounded in bytes and in time, and a whole one is left alone."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from uvicorn.server import ServerState

from service.edges.bounded import BoundedProtocol
from service.edges.outlet import Receive, Send
from service.edges.server import data_config
from tests.fakes import ScriptedClient


class Tight(BoundedProtocol):
    head_bytes_max = 1000
    head_s = 0.1


async def app(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok", "more_body": False})


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@asynccontextmanager
async def listening() -> AsyncIterator[ScriptedClient]:
    config = data_config(app, host="127.0.0.1", port=0)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: Tight(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    client = await ScriptedClient.connect(server.sockets[0].getsockname()[1])
    try:
        yield client
    finally:
        client.leave()
        server.close()
        await asyncio.sleep(0.02)
    assert not state.connections


async def test_requests_within_the_bounds_pass_and_the_connection_stays() -> None:
    async with listening() as client:
        for _ in range(3):
            await client.post(b"/", b"x" * 5000)  # a body is no head
            assert (await client.response())[2] == b"ok"
            await asyncio.sleep(0.15)  # idle between requests is uvicorn's business


@pytest.mark.parametrize(
    "head", [b"x-endless: " + b"v" * 4000, b"".join(b"x-%d: 1\r\n" % n for n in range(400))]
)
async def test_a_head_without_end_is_refused(head: bytes) -> None:
    async with listening() as client:
        await client.send(b"GET / HTTP/1.1\r\nhost: t\r\n" + head)
        assert (await client.head())[0] == 431
        assert await client.closed()


async def test_a_head_that_does_not_come_is_closed() -> None:
    async with listening() as client:
        assert (await client.head())[0] == 408
        assert await client.closed()


async def test_a_head_that_comes_byte_by_byte_runs_out_of_time() -> None:
    async with listening() as client:
        await client.post(b"/", b"")
        assert (await client.response())[0] == 200
        with suppress(ConnectionError):  # what is sent after the close is answered with a reset
            for byte in b"GET / HTTP/1.1\r\nhost: " + b"t" * 200:
                await client.send(bytes([byte]))
                await asyncio.sleep(0.01)
            pytest.fail("a head that never ended was waited for")


async def test_a_slow_body_is_not_a_slow_head() -> None:
    async with listening() as client:
        await client.send(b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 4\r\n\r\nab")
        await asyncio.sleep(0.2)
        await client.send(b"cd")
        assert (await client.response())[0] == 200
