"""A head is bounded in bytes and in time, a whole one is left alone, and HTTP/1.0 gets what it can read."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from uvicorn.server import ServerState

from service.edges.bounded import BoundedProtocol
from service.edges.outlet import Receive, Send
from service.edges.server import App, data_config
from tests.fakes import ScriptedClient


class Tight(BoundedProtocol):
    head_bytes_max = 1000
    head_s = 1.0  # longer than any machine stands still


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
async def listening(served: App = app) -> AsyncIterator[ScriptedClient]:
    config = data_config(served, host="127.0.0.1", port=0)
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
        for _ in range(2):
            await client.post(b"/", b"x" * 5000)  # a body is no head
            assert (await client.response())[2] == b"ok"
            await asyncio.sleep(1.1)  # idle between requests is uvicorn's business


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
        with suppress(
            ConnectionError, RuntimeError
        ):  # what is sent after the close: a reset, or uvloop's own word
            for byte in b"GET / HTTP/1.1\r\nhost: " + b"t" * 2000:
                await client.send(bytes([byte]))
                await asyncio.sleep(0.01)
            pytest.fail("a head that never ended was waited for")


async def test_a_slow_body_is_not_a_slow_head() -> None:
    async with listening() as client:
        await client.send(b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 4\r\n\r\nab")
        await asyncio.sleep(1.1)
        await client.send(b"cd")
        assert (await client.response())[0] == 200


OLD = b"GET / HTTP/1.0\r\n\r\n"


def says(*messages: bytes, whole: bool = True, length: int = 0) -> App:
    """An app that sends these pieces, and ends its answer or lets it break off."""

    async def answer(_: Mapping[str, Any], __: Receive, send: Send) -> None:
        headers = [(b"content-length", b"%d" % length)] if length else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for message in messages:
            await send({"type": "http.response.body", "body": message, "more_body": True})
        if whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return answer


async def test_a_client_of_http_1_0_gets_a_body_that_ends_with_its_connection() -> None:
    async with listening(says(b"one ", b"two")) as client:
        await client.send(OLD)
        status, headers = await client.head()
        assert (status, headers) == (200, {b"connection": b"close"})
        assert await client.rest() == b"one two"


async def test_a_length_that_is_known_is_told_to_http_1_0_too() -> None:
    async with listening(says(b"one ", b"two", length=7)) as client:
        await client.send(OLD)
        status, headers, received = await client.response()
        assert (status, headers[b"content-length"], received) == (200, b"7", b"one two")
        assert await client.closed()


async def test_a_body_that_breaks_off_is_no_whole_one_for_http_1_0() -> None:
    async with listening(says(b"one ", whole=False)) as client:
        await client.send(OLD)
        await client.head()
        with pytest.raises(ConnectionResetError):
            await client.rest()


async def test_http_1_1_keeps_its_chunks() -> None:
    async with listening(says(b"one ", b"two")) as client:
        await client.get(b"/")
        _, headers, received = await client.response()
        assert (headers[b"transfer-encoding"], received) == (b"chunked", b"one two")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nhost : t\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: t\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ],
    ids=["no HTTP", "websocket"],
)
async def test_what_strangers_send_fills_no_log(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with listening() as client:
        await client.send(sent)
        assert (await client.head())[0] in {200, 400}
    assert caplog.messages == []
