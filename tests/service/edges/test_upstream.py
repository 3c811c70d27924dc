"""What every client behind the seam promises: one suite, the same bytes, both clients, both loops."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from service.core.events import Ending
from service.edges.upstream import Exchange, Limits, Request, Upstream, origin_of
from service.edges.upstream_aiohttp import AiohttpUpstream
from service.edges.upstream_raw import RawUpstream
from tests.fakes import OK, POST, Heard, Script, ScriptedUpstream, Stop, answer, ask, stream
from tests.waiting import farewells, steady, until

Client = Callable[[str, Limits], Upstream]
DEFAULTS = Limits()
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture(params=[RawUpstream, AiohttpUpstream], ids=["raw", "aiohttp"])
def client(request: pytest.FixtureRequest) -> Client:
    made: Client = request.param
    return made


@asynccontextmanager
async def started(
    client: Client, *scripts: Script, limits: Limits = DEFAULTS
) -> AsyncIterator[tuple[Upstream, ScriptedUpstream]]:
    async with ScriptedUpstream(*scripts) as server:
        upstream = client(server.url, limits)
        try:
            yield upstream, server
        finally:
            await upstream.close()
            await farewells()


async def outcome(
    client: Client, *steps: bytes | float | asyncio.Event | Stop, request: Request = POST
) -> Heard:
    """What the first request of a fresh client hears."""
    async with started(client, steps) as (upstream, _):
        return await ask(upstream, request)


# --- whole responses ---


@pytest.mark.parametrize(
    "wire",
    [
        stream(b"data: a\n\n", b"data: b\n\n"),
        answer(b"data: a\n\ndata: b\n\n"),
        OK
        + b"transfer-encoding: chunked\r\n\r\n8;note=x\r\ndata: a\n\r\n"
        + b"A\r\n\ndata: b\n\n\r\n0\r\nx-late: 1\r\n\r\n",
    ],
    ids=["chunked", "length", "chunk extensions and trailers"],
)
@pytest.mark.parametrize("cut", [1, 7, 97, 10_000])
async def test_the_body_is_the_same_wherever_the_wire_is_cut(client: Client, wire: bytes, cut: int) -> None:
    pieces: list[bytes | float] = []
    for start in range(0, len(wire), cut):
        pieces += [wire[start : start + cut], 0.0]
    heard = await outcome(client, *pieces)
    assert heard.body == b"data: a\n\ndata: b\n\n"
    assert heard.ended
    assert heard.head is not None
    assert heard.head.status == 200
    assert all(name != b"x-late" for name, _ in heard.head.headers)


async def test_a_body_without_length_or_chunks_ends_with_the_connection(client: Client) -> None:
    heard = await outcome(client, OK + b"content-type: text/plain\r\n\r\nab", 0.01, b"cd", Stop.CLOSE)
    assert (heard.body, heard.ended) == (b"abcd", True)


@pytest.mark.parametrize("status", [204, 304])
async def test_some_statuses_have_no_body(client: Client, status: int) -> None:
    heard = await outcome(client, b"HTTP/1.1 %d X\r\netag: a\r\n\r\n" % status)
    assert (heard.body, heard.ended) == (b"", True)


async def test_a_head_response_has_no_body_whatever_its_length_says(client: Client) -> None:
    heard = await outcome(client, OK + b"content-length: 10\r\n\r\n", request=Request(b"HEAD", b"/x", []))
    assert (heard.body, heard.ended) == (b"", True)


async def test_interim_responses_are_not_the_response(client: Client) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    heard = await outcome(client, b"HTTP/1.1 100 Continue\r\n\r\n", early, answer(b"ok"))
    assert heard.head is not None
    assert heard.head.status == 200
    assert b"link" not in dict(heard.head.headers)
    assert heard.body == b"ok"


async def test_header_names_come_in_lower_case_and_values_untouched(client: Client) -> None:
    heard = await outcome(client, OK + b"X-Mixed: Value\r\nContent-Length: 0\r\n\r\n")
    assert heard.head is not None
    assert (b"x-mixed", b"Value") in heard.head.headers


async def test_an_error_status_is_a_response(client: Client) -> None:
    heard = await outcome(client, b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy")
    assert heard.head is not None
    assert (heard.head.status, heard.body, heard.ended) == (503, b"busy", True)


async def test_redirects_and_cookies_are_the_clients_business(client: Client) -> None:
    moved = b"HTTP/1.1 307 Moved\r\nlocation: /y\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n"
    async with started(client, [moved]) as (upstream, server):
        first = await ask(upstream)
        await ask(upstream)
    assert first.head is not None
    assert first.head.status == 307
    assert len(server.requests) == 2
    assert b"cookie" not in server.heads()[1]


# --- what goes out ---


async def test_the_request_goes_out_as_given_with_our_host_and_length(client: Client) -> None:
    request = Request(b"POST", b"/a%20b?c=d%2F", [(b"authorization", b"Bearer s"), (b"x-a", b"1")], b"hello")
    async with started(client, [answer(b"ok")]) as (upstream, server):
        await ask(upstream, request)
    (sent,) = server.requests
    assert sent.startswith(b"POST /a%20b?c=d%2F HTTP/1.1\r\n")
    (head,) = server.heads()
    assert head == {
        b"host": server.url.removeprefix("http://").encode(),
        b"authorization": b"Bearer s",
        b"x-a": b"1",
        b"content-length": b"5",
    }
    assert server.bodies() == [b"hello"]


# --- broken responses ---


@pytest.mark.parametrize("stop", [Stop.CLOSE, Stop.RESET])
@pytest.mark.parametrize(
    "wire",
    [CHUNKED + b"3\r\nabc\r\n", CHUNKED + b"5\r\nabc", OK + b"content-length: 9\r\n\r\nabc"],
    ids=["between chunks", "in a chunk", "under its length"],
)
async def test_a_body_that_stops_early_is_an_error(client: Client, wire: bytes, stop: Stop) -> None:
    heard = await outcome(client, wire, 0.02, stop)
    assert not heard.ended
    assert heard.error is not None
    assert heard.error.ending is Ending.BROKEN
    assert b"abc".startswith(heard.body)


@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        OK + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabc",
        OK + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        OK + b"content-length: -1\r\n\r\n",
        OK + b"bad header : x\r\ncontent-length: 0\r\n\r\n",
        OK + b"x-nul: a\x00b\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=["no http", "two lengths", "length and chunks", "negative length", "space before colon", "NUL"],
)
async def test_an_ambiguous_head_is_refused(client: Client, head: bytes) -> None:
    heard = await outcome(client, head, Stop.FOREVER)
    assert heard.error is not None
    assert heard.head is None
    assert heard.body == b""


async def test_no_response_at_all_is_a_refusal(client: Client) -> None:
    heard = await outcome(client, Stop.CLOSE)
    assert heard.error is not None
    assert heard.error.ending is Ending.REFUSED


async def test_a_closed_port_is_a_refusal(client: Client) -> None:
    async with ScriptedUpstream() as server:
        url = server.url
    upstream = client(url, Limits())
    heard = await ask(upstream)
    await upstream.close()
    assert heard.error is not None
    assert heard.error.ending is Ending.REFUSED
    assert heard.error.reason == "connect_failed"


async def test_the_body_has_a_cap(client: Client) -> None:
    async with started(client, [answer(b"x" * 5000)], limits=Limits(body_bytes=1000)) as (upstream, _):
        heard = await ask(upstream)
    assert heard.error is not None
    assert heard.error.reason == "response_too_large"


async def test_the_head_has_a_cap(client: Client) -> None:
    lines = b"".join(b"x-%d: %b\r\n" % (line, b"v" * 100) for line in range(50))
    wire = OK + lines + b"content-length: 0\r\n\r\n"
    async with started(client, [wire], limits=Limits(head_bytes=2000)) as (upstream, _):
        heard = await ask(upstream)
    assert heard.error is not None
    assert heard.error.ending is Ending.BROKEN


# --- the pool ---


async def test_a_kept_connection_is_used_again(client: Client) -> None:
    async with started(client, [stream(b"a")]) as (upstream, server):
        for _ in range(5):
            assert (await ask(upstream)).ended
        assert server.connections == 1
        assert (upstream.counts.connects, upstream.counts.reuses) == (1, 4)


@pytest.mark.parametrize(
    "wire",
    [
        OK + b"connection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        answer(b"ok") + answer(b"ko"),
    ],
    ids=["told to close", "old protocol", "a second response"],
)
async def test_a_connection_that_must_not_be_used_again_is_not(client: Client, wire: bytes) -> None:
    async with started(client, [wire]) as (upstream, server):
        first, second = await ask(upstream), await ask(upstream)
        assert (first.body, second.body) == (b"ok", b"ok")
        assert server.connections == 2


async def test_a_request_that_met_a_closing_connection_is_sent_once_more(client: Client) -> None:
    scripts: list[Script] = [[answer(b"first")], [Stop.CLOSE], [answer(b"second")]]
    async with started(client, *scripts) as (upstream, server):
        await ask(upstream)
        heard = await ask(upstream)
        assert (heard.body, heard.ended) == (b"second", True)
        assert server.bodies() == [POST.body] * 3
        assert upstream.counts.stale_retries == 1


async def test_it_is_sent_once_more_and_no_more(client: Client) -> None:
    async with started(client, [answer(b"first")], [Stop.CLOSE]) as (upstream, server):
        await ask(upstream)
        heard = await ask(upstream)
        assert heard.error is not None
        assert heard.error.ending is Ending.REFUSED
        assert len(server.requests) == 3


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\n", CHUNKED, CHUNKED + b"3\r\nabc\r\n"])
async def test_nothing_is_sent_again_once_a_head_has_begun(client: Client, first: bytes) -> None:
    if client is AiohttpUpstream and first == b"HTTP/1.1 200 OK\r\n":
        first = CHUNKED  # aiohttp does not tell half a head from none
    async with started(client, [answer(b"ok")], [first, 0.02, Stop.CLOSE]) as (upstream, server):
        await ask(upstream)
        heard = await ask(upstream)
        assert heard.error is not None
        assert heard.error.ending is Ending.BROKEN
        assert len(server.requests) == 2


async def test_an_idle_connection_is_not_kept_for_ever(client: Client) -> None:
    async with started(client, [answer(b"ok")], limits=Limits(idle_s=0.02)) as (upstream, server):
        await ask(upstream)
        await asyncio.sleep(0.06)
        upstream.sweep()
        await asyncio.sleep(0.02)
        assert (await ask(upstream)).ended
        assert server.connections == 2


# --- pausing and leaving ---


async def test_a_paused_exchange_takes_a_bounded_amount_more(client: Client) -> None:
    piece = b"x" * 65_536
    wire: Script = [CHUNKED, *[b"10000\r\n" + piece + b"\r\n"] * 400, b"0\r\n\r\n"]
    async with started(client, wire) as (upstream, _):
        heard = Heard()
        exchange = upstream.start(POST, heard)
        heard.on_each = exchange.pause
        await until(lambda: heard.pieces)
        held = await steady(lambda: len(heard.body))
        assert 0 < held <= 1 << 20
        heard.on_each = lambda: None
        exchange.resume()
        await asyncio.wait_for(heard.over.wait(), 50)
        assert heard.body == piece * 400


async def test_a_connection_never_enters_the_pool_paused(client: Client) -> None:
    async with started(client, [stream(b"a")]) as (upstream, _):
        heard = Heard()
        exchange = upstream.start(POST, heard)
        heard.on_each = exchange.pause
        await until(lambda: heard.pieces)
        await asyncio.sleep(0.05)
        exchange.resume()
        await asyncio.wait_for(heard.over.wait(), 50)
        assert (await ask(upstream)).ended


def _stage(name: str) -> Script:
    stages: dict[str, Script] = {
        "before the head": [Stop.FOREVER],
        "after the head": [CHUNKED, Stop.FOREVER],
        "in the body": [CHUNKED, b"3\r\nabc\r\n", Stop.FOREVER],
    }
    return stages[name]


@pytest.mark.parametrize("stage", ["before the head", "after the head", "in the body"])
async def test_an_abort_closes_the_connection_and_silences_the_sink(client: Client, stage: str) -> None:
    async with started(client, _stage(stage)) as (upstream, server):
        heard = Heard()
        exchange = upstream.start(POST, heard)
        await until(lambda: server.requests)
        await until(lambda: heard.head or stage == "before the head")
        await until(lambda: heard.pieces or stage != "in the body")
        exchange.abort()
        await asyncio.wait_for(server.gone.wait(), 50)
        assert not heard.over.is_set()
        assert server.open == 0


async def test_an_abort_while_connecting_opens_nothing(client: Client) -> None:
    async with started(client, [Stop.FOREVER]) as (upstream, server):
        heard = Heard()
        upstream.start(POST, heard).abort()
        await asyncio.sleep(0.05)
        assert (server.open, server.requests) == (0, [])
        assert not heard.over.is_set()


async def test_an_abort_from_within_the_sink_is_the_last_call(client: Client) -> None:
    async with started(client, [CHUNKED, b"1\r\na\r\n", Stop.FOREVER]) as (upstream, server):
        heard = Heard()
        exchange: Exchange = upstream.start(POST, heard)
        heard.on_each = exchange.abort
        await asyncio.wait_for(server.gone.wait(), 50)
        assert heard.pieces == [b"a"]
        assert not heard.over.is_set()
        assert server.open == 0


async def test_a_drained_exchange_runs_out_unread(client: Client) -> None:
    drained = asyncio.Event()
    script: Script = [CHUNKED, b"3\r\nabc\r\n", drained, b"3\r\ndef\r\n0\r\n\r\n"]
    async with started(client, script) as (upstream, server):
        heard = Heard()
        exchange = upstream.start(POST, heard)
        await until(lambda: heard.pieces)
        exchange.drain(50.0)
        drained.set()
        await until(lambda: server.written == sum(len(step) for step in script if isinstance(step, bytes)))
        await asyncio.sleep(0.05)
        assert heard.body == b"abc"
        assert not heard.over.is_set()
        assert not server.gone.is_set()
        assert upstream.counts.drains == 1


async def test_a_drain_does_not_last_for_ever(client: Client) -> None:
    async with started(client, [CHUNKED, Stop.FOREVER]) as (upstream, server):
        exchange = upstream.start(POST, Heard())
        await until(lambda: server.requests)
        exchange.drain(0.05)
        await asyncio.wait_for(server.gone.wait(), 50)


def test_a_base_path_and_a_port_are_read_from_the_url() -> None:
    origin = origin_of("http://router.example:81/base/")
    assert (origin.host, origin.port, origin.prefix, origin.authority) == (
        "router.example",
        81,
        b"/base",
        b"router.example:81",
    )
    assert origin_of("https://[::1]").authority == b"[::1]"
