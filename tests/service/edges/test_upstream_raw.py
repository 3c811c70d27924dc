"""What our own client promises beyond the suite that it shares with the reference."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.events import Ending
from service.edges.upstream import Limits, ResponseHead, UpstreamError
from service.edges.upstream_raw import Connection, RawExchange, RawUpstream
from tests.fakes import OK, POST, Heard, Script, ScriptedUpstream, Stop, answer, ask, stream
from tests.waiting import farewells, until

CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
LAST = OK + b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"


async def outcome(*steps: bytes | float | asyncio.Event | Stop) -> Heard:
    async with ScriptedUpstream(steps) as server:
        upstream = RawUpstream(server.url, Limits())
        heard = await ask(upstream)
        await upstream.close()
    return heard


async def test_a_reset_is_never_the_end_of_a_body_without_length() -> None:
    heard = await outcome(OK + b"content-type: text/plain\r\n\r\nab", 0.02, Stop.RESET)
    assert heard.error is not None
    assert heard.error.ending is Ending.BROKEN


async def test_the_good_bytes_before_a_bad_chunk_header_are_handed_on() -> None:
    heard = await outcome(CHUNKED + b"3\r\nabc\r\n3\r\ndef\r\nzz\r\n", Stop.FOREVER)
    assert heard.body == b"abcdef"
    assert heard.error is not None
    assert heard.error.reason == "bad_response"


@pytest.mark.parametrize(
    "head",
    [
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: gzip\r\n\r\nabc",
        b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        OK + b"x-folded: a\r\n b\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\ncontent-length: 0\n\n",
    ],
    ids=["gzip and chunked", "gzip", "HTTP/2", "upgrade", "folded line", "bare LF"],
)
async def test_what_we_would_misread_is_refused(head: bytes) -> None:
    heard = await outcome(head, Stop.FOREVER)
    assert heard.head is None
    assert heard.error is not None
    assert heard.error.ending is Ending.BROKEN


async def test_endless_interim_heads_and_endless_trailers_meet_the_same_cap() -> None:
    interim = b"HTTP/1.1 103 Early\r\nlink: %b\r\n\r\n" % (b"x" * 1000)
    assert (await outcome(*[interim] * 100, Stop.FOREVER)).error is not None
    trailers = b"".join(b"x-%d: %b\r\n" % (line, b"v" * 1000) for line in range(100))
    heard = await outcome(CHUNKED + b"0\r\n" + trailers, Stop.FOREVER)
    assert heard.error is not None
    assert heard.error.reason == "response_head_too_large"


async def test_a_connection_that_never_comes_about_times_out() -> None:
    upstream = RawUpstream("http://127.0.0.1:1", Limits(connect_s=0.0))
    heard = await ask(upstream)
    assert heard.error is not None
    assert (heard.error.ending, heard.error.reason) == (Ending.TIMEOUT, "connect_timeout")


@pytest.mark.parametrize("late", [b"poison", answer(b"poison")])
async def test_bytes_on_an_idle_connection_poison_it(late: bytes) -> None:
    scripts: list[Script] = [[answer(b"ok"), 0.02, late], [answer(b"ok")]]
    async with ScriptedUpstream(*scripts) as server:
        upstream = RawUpstream(server.url, Limits())
        await ask(upstream)
        await until(lambda: server.written == len(answer(b"ok")) + len(late))
        await farewells()
        assert (await ask(upstream)).body == b"ok"
        assert server.connections == 2
        await upstream.close()


async def test_rubbish_after_the_end_costs_the_connection_and_not_the_response() -> None:
    async with ScriptedUpstream([answer(b"ok") + b"rubbish"]) as server:
        upstream = RawUpstream(server.url, Limits())
        assert (await ask(upstream)).body == b"ok"
        assert (await ask(upstream)).body == b"ok"
        assert server.connections == 2
        await upstream.close()


async def test_thirty_requests_on_closing_connections_all_succeed() -> None:
    """The case that fails 30 times in 30 with a general client: POST on a connection just being closed."""
    async with ScriptedUpstream([answer(b"ok"), Stop.CLOSE]) as server:
        upstream = RawUpstream(server.url, Limits())
        for _ in range(30):
            assert (await ask(upstream)).ended
        await upstream.close()


async def test_one_read_is_one_piece() -> None:
    heard = await outcome(stream(b"a", b"b", b"c"))
    assert heard.pieces == [b"abc"]


async def test_its_state_can_be_read_from_its_repr() -> None:
    async with ScriptedUpstream([CHUNKED, b"1\r\na\r\n", Stop.FOREVER]) as server:
        upstream = RawUpstream(server.url, Limits())
        heard = Heard()
        exchange = upstream.start(POST, heard)
        assert repr(exchange) == "<RawExchange connecting 0 bytes>"
        assert repr(upstream) == "<RawUpstream 0 idle, 1 connecting>"
        await until(lambda: heard.pieces)
        exchange.pause()
        assert repr(exchange) == "<RawExchange body 1 bytes paused>"
        exchange.abort()
        await upstream.close()


class Recorder:
    """A sink without a loop."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.endings: list[str] = []

    def on_head(self, head: ResponseHead) -> None:
        self.pieces.append(b"")

    def on_data(self, data: bytes) -> None:
        self.pieces.append(data)

    def on_end(self) -> None:
        self.endings.append("end")

    def on_error(self, error: UpstreamError) -> None:
        self.endings.append(error.reason)


class Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    def write(self, data: object) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool:
        return False


def fed(*reads: bytes, limits: Limits = Limits()) -> Recorder:  # noqa: B008 - frozen
    """What a sink hears of these reads."""
    pool, heard = RawUpstream("http://127.0.0.1:1", limits), Recorder()
    connection = Connection(pool)
    connection.connection_made(Wire())
    exchange = RawExchange(pool, POST, heard)
    exchange.attach(connection)
    for read in reads:
        if connection.exchange is not None:
            connection.data_received(read)
    return heard


CHUNKS = st.lists(st.binary(min_size=1, max_size=40) | st.just(b"x" * 300), max_size=6)


@given(chunks=CHUNKS, cuts=st.lists(st.integers(0, 2000), max_size=8), upper=st.booleans())
def test_wherever_chunks_are_cut_the_body_is_theirs(
    chunks: list[bytes], cuts: list[int], upper: bool
) -> None:
    size = b"%X" if upper else b"%x"
    framed = [(size + b"\r\n%b\r\n") % (len(chunk), chunk) for chunk in chunks]
    wire = LAST + b"".join(framed) + b"0\r\n\r\n"
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    torn = fed(*[wire[a:b] for a, b in itertools.pairwise(places)])
    assert (b"".join(torn.pieces), torn.endings) == (b"".join(chunks), ["end"])
    one_by_one = fed(LAST, *framed, b"0\r\n\r\n")
    assert (one_by_one.pieces, one_by_one.endings) == ([b"", *chunks], ["end"])


@pytest.mark.parametrize(
    "bad",
    [
        *(b"5\r\nabc\r\n", b"0x3\r\nabc\r\n", b"+3\r\nabc\r\n", b" 3\r\nabc\r\n"),
        *(b"3\nabc\r\n", b"\r\n\r\n", b"3\r\nabcd\r\n"),
    ],
)
def test_a_read_that_only_looks_like_a_chunk_is_refused(bad: bytes) -> None:
    heard = fed(LAST, b"3\r\nabc\r\n", bad, b"0\r\n\r\n" * 9)
    assert b"".join(heard.pieces[:2]) == b"abc"
    assert heard.endings == ["bad_response"]


def test_chunks_in_reads_of_their_own_meet_the_same_cap() -> None:
    heard = fed(LAST, *[b"4\r\nabcd\r\n"] * 9, limits=Limits(body_bytes=10))
    assert heard.endings == ["response_too_large"]
