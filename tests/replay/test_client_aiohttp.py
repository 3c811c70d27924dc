"""The fallback tells of an answer what the raw client tells of it."""

import asyncio
from pathlib import Path

import pytest

from replay.client import Call, RawClient, Transport
from replay.client_aiohttp import AiohttpClient
from replay.run import run_plan
from replay.target import target_of
from tests.fakes import Script, ScriptedUpstream, Stop, answer, stream
from tests.replay.runkit import by_id, evenly, mocking, options, plan_of
from tests.replay.test_client import CHAT, EVENT, GOOD, JSON, LAST, over_tls
from tests.replay.test_client import TLS as CERTIFICATES
from tests.waiting import until

CLOSING = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


async def told(client: Transport) -> tuple[object, ...]:
    over: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
    client.start(CHAT, b'{"a":1}', over.set_result)
    call = await asyncio.wait_for(over, 30)
    answer = call.answer
    return call.ending, call.error, call.status, answer.text, answer.finish_reason, len(answer.times)


@pytest.mark.parametrize(
    "script",
    [
        [GOOD],
        [step for byte in GOOD for step in (bytes([byte]), 0.0)],
        [answer(EVENT + LAST)],
        [answer(b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}', kind=JSON)],
        [answer(b'{"error":{"type":"Oops"}}', b"HTTP/1.1 500 X\r\n", JSON)],
        [stream(EVENT, b'data: {"error":{"type":"Abort"}}\n\n')],
        [CLOSING + EVENT + LAST, 0.02, Stop.CLOSE],
        [stream(EVENT)[:-5], 0.02, Stop.RESET],
        [stream(EVENT)[:-5], 0.02, Stop.CLOSE],
        [Stop.CLOSE],
    ],
)
async def test_both_clients_tell_the_same(script: Script) -> None:
    async with ScriptedUpstream(script) as server:
        target = target_of(server.url)
        found = []
        for client in (RawClient(target), AiohttpClient(target)):
            found.append(await told(client))
            await client.close()
    assert found[0] == found[1]


async def test_nobody_there_is_a_refusal() -> None:
    async with ScriptedUpstream([]) as server:
        url = server.url
    client = AiohttpClient(target_of(url))
    assert (await told(client))[0] == "refused"
    await client.close()


async def test_a_call_that_is_stopped_leaves() -> None:
    async with ScriptedUpstream([stream(EVENT)[:-5], Stop.FOREVER]) as server:
        client = AiohttpClient(target_of(server.url))
        over: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        call = client.start(CHAT, b"{}", over.set_result)
        await until(lambda: call.answer.text)
        call.stop("timeout", "late")
        await asyncio.wait_for(server.gone.wait(), 30)
        assert ((await over).ending, call.answer.text) == ("timeout", "hello ")
        await client.close()


async def test_tls_is_spoken() -> None:
    async def check(client: Transport) -> None:
        assert (await told(client))[0] == "complete"

    await over_tls(
        lambda url: AiohttpClient(target_of(url), authorities=str(CERTIFICATES / "cert.pem")), check
    )


async def test_a_plan_runs_over_it(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path / "p", evenly(10, 0.01)), tmp_path / "r"
    async with mocking() as (url, mock):
        summary = await run_plan(
            plan, out, options(url), transport=lambda wishes: AiohttpClient(target_of(wishes.target))
        )
    assert (summary.by_ending, mock.requests) == ({"complete": 10}, 10)
    assert {one.text for one in by_id(out).values()} == {"the seven engineers read "}
