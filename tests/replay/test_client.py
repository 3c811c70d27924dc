"""The load client against servers that behave and servers that do not."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from replay.client import Call, RawClient, Transport
from replay.mock import Connection as MockConnection
from replay.mock import Mock
from replay.target import target_of
from tests.fakes import Script, ScriptedUpstream, Stop, answer, chunked, stream
from tests.waiting import farewells, until

TLS = Path(__file__).parent.parent / "fixtures" / "tls"
EVENT = b'data: {"id":"r1","choices":[{"index":0,"delta":{"content":"hello "}}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
GOOD = stream(EVENT, EVENT, LAST)
JSON = b"application/json"
CHAT = "/v1/chat/completions"


async def ask(
    client: Transport, body: bytes = b"{}", *, then: Callable[[Call], None] = lambda _: None
) -> Call:
    over = asyncio.get_running_loop().create_future()
    then(client.start(CHAT, body, over.set_result))
    async with asyncio.timeout(30):
        call: Call = await over
    return call


async def asked(*scripts: Script) -> Call:
    """One request to a server that follows a script."""
    async with ScriptedUpstream(*scripts) as server:
        client = RawClient(target_of(server.url))
        try:
            return await ask(client)
        finally:
            await client.close()


async def test_a_stream_is_told_whole() -> None:
    async with ScriptedUpstream([GOOD]) as server:
        client = RawClient(target_of(server.url + "/pool"), headers={"x-key": "k"})
        call = await ask(client, b'{"a":1}')
        await client.close()
    assert (call.ending, call.error, call.status) == ("complete", None, 200)
    assert (call.answer.text, call.answer.finish_reason) == ("hello hello ", "stop")
    assert call.sent_at is not None
    assert call.first_at is not None
    assert call.sent_at <= call.first_at <= call.answer.times[0] <= call.ended_at
    wire = server.requests[0]
    assert wire.startswith(b"POST /pool/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nx-key: k\r\n" in wire
    assert b"\r\naccept-encoding: identity\r\n" in wire
    assert wire.endswith(b'\r\n\r\n{"a":1}')


async def test_a_connection_is_used_again_and_one_that_closes_is_not() -> None:
    async with ScriptedUpstream(
        [GOOD], [answer(b"{}", b"HTTP/1.1 200 OK\r\nconnection: close\r\n")]
    ) as server:
        client = RawClient(target_of(server.url))
        for expected in (1, 1, 2):
            await ask(client)
            assert server.connections == expected
        await client.close()


@pytest.mark.parametrize("cut", range(1, len(GOOD), 7))
async def test_a_stream_that_is_reset_keeps_what_came(cut: int) -> None:
    call = await asked([GOOD[:cut], 0.02, Stop.RESET])
    assert call.ending == "reset"
    assert call.answer.text in {"", "hello ", "hello hello "}


async def test_a_stream_cut_anywhere_over_real_reads_is_whole() -> None:
    call = await asked([step for byte in GOOD for step in (bytes([byte]), 0.0)])
    assert (call.ending, call.answer.text) == ("complete", "hello hello ")


@pytest.mark.parametrize(
    ("script", "ending", "error"),
    [
        (
            [answer(b'{"error":{"type":"Oops","message":"m"}}', b"HTTP/1.1 500 X\r\n", JSON)],
            "error",
            "http 500: Oops",
        ),
        ([answer(b"<html>", b"HTTP/1.1 503 X\r\n", JSON)], "error", "http 503: unreadable"),
        ([answer(b"", b"HTTP/1.1 429 X\r\n")], "error", "http 429"),
        ([stream(EVENT, b'data: {"error":{"type":"Abort"}}\n\n')], "error", "Abort"),
        ([b"220 smtp ready\r\n\r\n"], "error", "bad response: it is not HTTP/1"),
        ([Stop.CLOSE], "refused", "the connection was closed"),
        ([Stop.RESET], "refused", "the connection was closed"),
        ([stream(EVENT)[:-5], Stop.CLOSE], "reset", "the connection was closed"),
    ],
)
async def test_what_went_wrong_is_named(script: Script, ending: str, error: str) -> None:
    call = await asked(script)
    assert (call.ending, call.error) == (ending, error)


async def test_a_body_that_ends_with_its_connection_is_complete() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    call = await asked([head + EVENT + LAST, 0.02, Stop.CLOSE])
    assert (call.ending, call.answer.text) == ("complete", "hello ")


async def test_nobody_there_is_a_refusal() -> None:
    async with ScriptedUpstream([]) as server:
        url = server.url
    client = RawClient(target_of(url))
    call = await ask(client)
    assert (call.ending, call.sent_at) == ("refused", None)
    await client.close()


async def test_a_connection_closed_while_it_was_idle_costs_no_request() -> None:
    async with ScriptedUpstream([GOOD, Stop.CLOSE], [GOOD]) as server:
        client = RawClient(target_of(server.url))
        assert (await ask(client)).ending == "complete"
        call = await ask(client)
        assert call.ending == "complete"
        await client.close()


async def test_a_server_that_hangs_is_left_when_the_caller_says_so() -> None:
    async with ScriptedUpstream([stream(EVENT)[:-5], Stop.FOREVER]) as server:
        client = RawClient(target_of(server.url))

        def once_it_speaks(call: Call) -> None:
            if call.answer.text:
                call.stop("timeout", "late")
            else:
                asyncio.get_running_loop().call_later(0.005, once_it_speaks, call)

        call = await ask(client, then=once_it_speaks)
        await asyncio.wait_for(server.gone.wait(), 30)
        await client.close()
    assert (call.ending, call.error, call.answer.text) == ("timeout", "late", "hello ")


async def test_a_call_stopped_while_it_connects_sends_nothing() -> None:
    async with ScriptedUpstream([GOOD]) as server:
        client = RawClient(target_of(server.url))
        call = await ask(client, then=lambda call: call.stop("aborted"))
        await asyncio.sleep(0.05)
        assert (call.ending, server.requests) == ("aborted", [])
        await client.close()


async def over_tls(client: Callable[[str], Transport], check: Callable[[Transport], Awaitable[None]]) -> None:
    """A mock behind TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    loop, mock = asyncio.get_running_loop(), Mock(chunks=3, pace_ms=1)
    server = await loop.create_server(lambda: MockConnection(mock), "127.0.0.1", 0, ssl=context)
    one = client(f"https://localhost:{server.sockets[0].getsockname()[1]}")
    try:
        await check(one)
    finally:
        await one.close()
        server.close()
        await asyncio.sleep(0.02)


async def test_tls_is_spoken() -> None:
    async def check(client: Transport) -> None:
        for _ in range(2):
            call = await ask(client)
            assert (call.ending, call.answer.text) == ("complete", "the seven engineers ")

    await over_tls(lambda url: RawClient(target_of(url), authorities=str(TLS / "cert.pem")), check)


async def test_a_certificate_nobody_vouches_for_is_refused() -> None:
    async def check(client: Transport) -> None:
        call = await ask(client)
        assert call.ending == "refused"
        assert call.error == "no connection: SSLCertVerificationError"

    await over_tls(lambda url: RawClient(target_of(url)), check)


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    async with ScriptedUpstream([GOOD, 0.05, chunked(b"more")], [GOOD]) as server:
        client = RawClient(target_of(server.url))
        await ask(client)
        await until(lambda: server.written > len(GOOD))
        await farewells()
        assert (await ask(client)).ending == "complete"
        assert server.connections == 2
        await client.close()
