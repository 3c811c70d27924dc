"""The bench's client: it finds out a proxy that loses, adds or leaks."""

import asyncio
import math

from replay.bench.load import END, Client, Tally, quantiles, request, run
from replay.bench.mock_worker import serve
from replay.bench.texts import PIECES
from replay.child import free_port

CHUNK = b'data: {"created":1000,"choices":[{"index":0}]}\n\n'


class Wire:
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.written.append(b"closed")


def connected(tally: Tally) -> Client:
    client = Client(tally, b"request", math.inf, asyncio.get_running_loop().create_future())
    client.connection_made(Wire())  # type: ignore[arg-type]
    return client


async def test_a_run_against_the_worker_has_no_errors() -> None:
    port = free_port()
    server = await serve(port)
    told = await run(port, request("/v1/chat/completions"), 3, 0.1)
    server.close()
    await asyncio.sleep(0.05)
    assert (told["streams"], told["errors"], told["leaks"]) == (3, 0, 0)
    assert told["chunks"] == 3 * (PIECES + 1)
    assert 0 < told["sojourn_p50_ms"] < 30_000
    assert 0 < told["first_byte_p50_ms"] < 30_000


async def test_a_lost_chunk_is_an_error() -> None:
    tally = Tally(asked=False)
    client = connected(tally)
    client.data_received(CHUNK * PIECES + END)
    assert tally.errors == 1
    client.data_received(CHUNK * (PIECES + 1) + END)
    assert tally.errors == 1
    assert tally.streams == 2


async def test_an_end_that_is_torn_over_reads_is_an_end() -> None:
    tally = Tally(asked=False)
    client = connected(tally)
    client.data_received(CHUNK * (PIECES + 1) + END[:5])
    client.data_received(END[5:9])
    client.data_received(END[9:])
    assert (tally.streams, tally.errors) == (1, 0)


async def test_usage_that_was_not_asked_for_is_a_leak() -> None:
    tally = Tally(asked=False)
    connected(tally).data_received(b'data: {"choices":[{}],"usage":{"completion_tokens":1}}\n\n')
    assert tally.leaks == 1
    asked = Tally(asked=True)
    connected(asked).data_received(b'data: {"choices":[{}],"usage":{"completion_tokens":1}}\n\n')
    assert asked.leaks == 0


async def test_a_broken_end_is_an_error() -> None:
    tally = Tally(asked=False)
    connected(tally).connection_lost(None)
    assert (tally.errors, tally.broken) == (1, 1)


def test_quantiles_of_nothing_are_unknown() -> None:
    assert math.isnan(quantiles([]).p50_ms)
    assert quantiles(list(range(1_000_000, 101_000_000, 1_000_000))).p50_ms == 51
