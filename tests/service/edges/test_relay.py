"""A request that nobody looks into: bytes through, errors honest, nothing left behind."""

import asyncio

import msgspec
import pytest

from service.edges.outlet import Sending
from service.edges.relay import LOOKS_A_TURN, Looks
from tests.fakes import OK, BrokenEndError, Script, Stop, answer
from tests.guarding import guarded, head, pieces

PATH = b"/v1/completions"


@pytest.mark.parametrize("sending", [*Sending])
async def test_bytes_and_headers_pass_as_they_are(sending: Sending) -> None:
    script: Script = [head(b"x-own: 1", b"connection: x-hop", b"x-hop: 1"), *pieces(b"one\r\n", b"\x00two")]
    async with guarded(script, sending=sending) as port:
        status, headers, received = await port.ask(b"{}", path=PATH)
        assert (status, received) == (200, b"one\r\n\x00two")
        assert headers[b"x-own"] == b"1"
        assert b"x-hop" not in headers


async def test_a_length_stays_a_length() -> None:
    async with guarded([answer(b"fine")]) as port:
        _, headers, received = await port.ask(b"{}", path=PATH)
        assert headers[b"content-length"] == b"4"
        assert received == b"fine"


@pytest.mark.parametrize(
    "wire",
    [head() + b"3\r\nabc\r\n", OK + b"content-length: 9\r\n\r\nabc"],
    ids=["chunked", "with a length"],
)
async def test_a_broken_end_is_broken_for_the_client(wire: bytes) -> None:
    async with guarded([wire, 0.02, Stop.CLOSE]) as port:
        client = await port.client()
        await client.post(PATH, b"{}")
        _, headers = await client.head()
        with pytest.raises(BrokenEndError):
            await client.body(headers)
        client.leave()


async def test_a_body_without_a_length_ends_cleanly_for_the_client() -> None:
    async with guarded([OK + b"content-type: text/plain\r\n\r\nabc", Stop.CLOSE]) as port:
        status, headers, received = await port.ask(b"{}", path=PATH)
        assert (status, received) == (200, b"abc")
        assert headers[b"transfer-encoding"] == b"chunked"


@pytest.mark.parametrize(("script", "status"), [([Stop.CLOSE], 503), ([b"rubbish\r\n\r\n"], 502)])
async def test_what_fails_before_the_head_is_a_real_error(script: Script, status: int) -> None:
    async with guarded(script) as port:
        got, _, received = await port.ask(b"{}", path=PATH)
        assert got == status
        assert msgspec.json.decode(received)["error"]["message"]


async def test_a_head_with_bytes_no_header_may_have_is_not_passed_on() -> None:
    async with guarded([OK + b"x-odd: \x80\xff\r\ncontent-length: 2\r\n\r\nok"]) as port:
        status, headers, _ = await port.ask(b"{}", path=PATH)
        assert (status, headers[b"x-odd"]) == (200, b"\x80\xff")


async def test_a_client_that_leaves_closes_the_upstream() -> None:
    async with guarded([head(), *pieces(b"x", end=False), Stop.FOREVER]) as port:
        client = await port.client()
        await client.post(PATH, b"{}")
        await client.head()
        client.leave()
        await asyncio.wait_for(port.upstream.gone.wait(), 50)
        await port.settled()
        assert port.desk.counts["aborts", "client_gone"] == 1


async def test_its_state_can_be_read_from_its_repr() -> None:
    async with guarded([head(), Stop.FOREVER]) as port:
        client = await port.client()
        await client.post(PATH, b"{}")
        await client.head()
        (relay,) = port.proxy.means.live
        assert repr(relay) == "<Relay <RawExchange body 0 bytes> <Outlet open, 0 bytes in line>>"
        client.leave()
        await port.settled()


async def test_looks_that_are_due_are_taken_together_once_the_reads_are_done() -> None:
    looks, order = Looks(), list[str]()
    looks.add(lambda _: order.append("first look"))
    looks.add(lambda _: order.append("second look"))
    order.append("the last byte of the turn")
    assert repr(looks) == "<Looks 2 due>"
    await asyncio.sleep(0.01)
    assert order == ["the last byte of the turn", "first look", "second look"]
    assert repr(looks) == "<Looks 0 due>"


async def test_reads_have_their_turn_between_many_looks() -> None:
    looks, order = Looks(), list[str]()
    for number in range(LOOKS_A_TURN + 1):
        looks.add(lambda _, number=number: order.append(f"look {number}"))  # type: ignore[misc]
    asyncio.get_running_loop().call_soon(lambda: order.append("a read"))
    await asyncio.sleep(0.01)
    assert order.index("a read") == LOOKS_A_TURN
    assert len(order) == LOOKS_A_TURN + 2
