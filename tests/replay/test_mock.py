"""The mock keeps to its clock and speaks two dialects."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

from replay.mock import Mock, serve
from tests.fakes import ScriptedClient


@asynccontextmanager
async def mocking(mock: Mock) -> AsyncIterator[int]:
    server = await serve(mock)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0.01)


async def ask(port: int, path: bytes) -> list[str]:
    client = await ScriptedClient.connect(port)
    await client.post(path, b'{"stream":true}')
    _, _, body = await client.response()
    client.leave()
    return [event.removeprefix(b"data: ").decode() for event in body.split(b"\n\n") if event]


async def test_chunks_come_to_the_clock() -> None:
    async with mocking(Mock(chunks=5, pace_ms=10)) as port:
        started = monotonic()
        events = await ask(port, b"/v1/chat/completions")
        assert monotonic() - started > 0.045
    chunks = [json.loads(event) for event in events[:-1]]
    assert [one["choices"][0]["delta"]["content"] for one in chunks[:5]] == [
        "the ",
        "seven ",
        "engineers ",
        "read ",
        "a ",
    ]
    assert chunks[5]["choices"][0]["finish_reason"] == "stop"
    assert chunks[6]["usage"]["completion_tokens"] == 5
    assert events[-1] == "[DONE]"


async def test_plain_completions_have_text() -> None:
    async with mocking(Mock(chunks=2, pace_ms=0)) as port:
        events = await ask(port, b"/v1/completions")
    assert [json.loads(event)["choices"][0]["text"] for event in events[:2]] == ["the ", "seven "]


async def test_it_counts_what_came() -> None:
    async with mocking(Mock(chunks=2, pace_ms=0)) as port:
        await ask(port, b"/v1/completions")
        client = await ScriptedClient.connect(port)
        await client.get(b"/v1/models")
        _, _, body = await client.response()
        client.leave()
    assert json.loads(body)["requests"] == 1


async def test_a_client_that_leaves_ends_its_stream() -> None:
    async with mocking(Mock(chunks=1000, pace_ms=1)) as port:
        client = await ScriptedClient.connect(port)
        await client.post(b"/v1/completions", b"{}")
        await client.some()
        client.leave()
        await asyncio.sleep(0.05)
