"""A question is over in time and takes few bytes, whatever stands at the other end."""

import gzip

import pytest

from service.edges.asking import UnansweredError, ask
from service.edges.router_admin import admin_client
from tests.fakes import OK, Script, ScriptedUpstream, Stop, answer


async def asked(script: Script, *, most_bytes: int = 1000, within_s: float = 60.0) -> bytes:
    async with ScriptedUpstream(script) as target, admin_client() as client:
        return await ask(client, target.url, most_bytes=most_bytes, within_s=within_s)


async def test_an_answer_is_read() -> None:
    assert await asked([answer(b"hello")]) == b"hello"


async def test_of_one_that_is_too_long_the_beginning_is_read() -> None:
    assert await asked([answer(b"ab" * 100_000)], most_bytes=7) == b"abababa"


async def test_one_that_trickles_is_given_up() -> None:
    """Each byte comes within the read timeout; the answer as a whole never does."""
    trickle: list[bytes | float] = [OK + b"content-length: 5000\r\n\r\n"]
    for _ in range(2000):
        trickle += (b"a", 0.02)
    with pytest.raises(UnansweredError, match="TimeoutError"):
        await asked(trickle, within_s=0.3)


async def test_a_compressed_answer_that_nobody_asked_for_stays_small() -> None:
    small = gzip.compress(bytes(10 << 20))
    script: Script = [answer(small, OK + b"content-encoding: gzip\r\n")]
    assert await asked(script, most_bytes=1 << 20) == small


@pytest.mark.parametrize(
    "script",
    [
        [answer(b"no", b"HTTP/1.1 404 Not Found\r\n")],
        [OK + b"content-length: 9\r\n\r\nhalf", Stop.CLOSE],
        [b"garbage\r\n\r\n"],
        [Stop.RESET],
    ],
    ids=["no success", "broken off", "no HTTP", "reset"],
)
async def test_no_answer_is_one_error_of_its_own(script: Script) -> None:
    with pytest.raises(UnansweredError):
        await asked(script)


@pytest.mark.parametrize(
    "url", ["http://[::bad", "grpc://127.0.0.1:1", "http://127.0.0.1:1", "", "http://a\ud800"]
)
async def test_an_address_that_is_none_is_no_answer_either(url: str) -> None:
    async with admin_client() as client:
        with pytest.raises(UnansweredError):
            await ask(client, url)
