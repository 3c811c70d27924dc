"""The order of turns, and first bytes of single requests."""

import asyncio
import socket
from collections import Counter

import pytest

from replay.bench.figures import ARMS, LOCKSTEP, STAGGERED
from replay.bench.gateway import first_byte_ms, main, turns
from replay.bench.load import request
from replay.bench.mock_worker import serve
from replay.bench.proxies import BenchError
from replay.child import free_port
from tests.fakes import ScriptedUpstream, Stop


def test_every_arm_has_its_turn_in_every_round_and_the_order_turns_round() -> None:
    order = list(turns(ARMS, 3))
    told = Counter((arm.name, arrivals) for _, arrivals, arm in order)
    assert set(told.values()) == {3}
    assert {arrivals for _, arrivals, _ in order} == {STAGGERED, LOCKSTEP}
    firsts = [arm.name for number, arrivals, arm in order if arrivals == STAGGERED and number == 0]
    seconds = [arm.name for number, arrivals, arm in order if arrivals == STAGGERED and number == 1]
    assert firsts == seconds[::-1]


async def test_the_first_byte_of_a_single_request_is_timed() -> None:
    port = free_port()
    server = await serve(port)
    wire = request("/v1/chat/completions", max_tokens=1)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(3):
            assert 0 < await asyncio.to_thread(first_byte_ms, connection, wire) < 30_000
    server.close()
    await asyncio.sleep(0.05)


async def test_a_proxy_that_closes_is_an_error_and_no_figure() -> None:
    async with ScriptedUpstream([b"HTTP/1.1 200 OK\r\n", Stop.CLOSE]) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection, pytest.raises(BenchError):
            await asyncio.to_thread(first_byte_ms, connection, b"GET / HTTP/1.1\r\n\r\n")


def test_an_unknown_word_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--fast"])
    assert "--quick" in capsys.readouterr().err
