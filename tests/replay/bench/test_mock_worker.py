"""The bench's worker: to the schedule, in the dialect, usage only where it is asked for."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import httpx

from replay.bench.load import request
from replay.bench.mock_worker import serve
from replay.bench.texts import PIECES
from replay.child import free_port
from tests.fakes import ScriptedClient

PATH = "/v1/chat/completions"


@asynccontextmanager
async def working() -> AsyncIterator[int]:
    port = free_port()
    server = await serve(port)
    try:
        yield port
    finally:
        server.close()
        await asyncio.sleep(0.05)


async def ask(port: int, wire: bytes) -> list[bytes]:
    """The payloads of one whole answer."""
    client = await ScriptedClient.connect(port)
    await client.send(wire)
    _, headers, body = await client.response()
    assert headers[b"x-smg-routed-worker-id"] == b"http://127.0.0.1:%d" % port
    client.leave()
    return [event.removeprefix(b"data: ") for event in body.split(b"\n\n") if event]


async def test_an_answer_is_whole_and_keeps_to_its_pace() -> None:
    async with working() as port:
        started = monotonic()
        payloads = await ask(port, request(PATH))
        taken = monotonic() - started
    assert payloads[-1] == b"[DONE]"
    assert len(payloads) == PIECES + 2
    chunks = [json.loads(payload) for payload in payloads[:-1]]
    assert all("usage" not in chunk for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert taken > 0.9 * PIECES * 0.005


async def test_usage_grows_chunk_by_chunk_where_it_is_asked_for() -> None:
    async with working() as port:
        payloads = await ask(port, request(PATH, asked=True, max_tokens=20))
    counts = [json.loads(payload)["usage"]["completion_tokens"] for payload in payloads[:20]]
    assert counts == sorted(set(counts))


async def test_lockstep_writes_all_streams_in_one_tick() -> None:
    async with working() as port, httpx.AsyncClient() as client:
        told = await client.get(f"http://127.0.0.1:{port}/arrivals/lockstep")
        assert told.json() == {"lockstep": True}
        answers = await asyncio.gather(*[ask(port, request(PATH, max_tokens=30)) for _ in range(8)])
        stamps = [[json.loads(payload)["created"] for payload in payloads[5:25]] for payloads in answers]
    ticks = [stamp // 2_500_000 for stream in stamps for stamp in stream]
    assert len(set(ticks)) < len(ticks) / 3


async def test_it_names_itself_as_a_router_would() -> None:
    async with working() as port, httpx.AsyncClient() as client:
        workers = (await client.get(f"http://127.0.0.1:{port}/workers")).json()["workers"]
        assert workers[0]["url"] == f"http://127.0.0.1:{port}"
        info = (await client.get(f"http://127.0.0.1:{port}/server_info")).json()
        assert info["speculative_num_steps"] == 3
