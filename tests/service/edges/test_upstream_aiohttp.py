"""Where the reference client is known to be weaker than our own; test_upstream.py is what both pass."""

from service.edges.upstream import Limits
from service.edges.upstream_aiohttp import AiohttpUpstream
from tests.fakes import OK, POST, Heard, Script, ScriptedUpstream, Stop, answer, ask
from tests.waiting import farewells, until


async def test_it_takes_a_reset_for_the_end_of_a_body_without_length() -> None:
    async with ScriptedUpstream([OK + b"content-type: text/plain\r\n\r\nab", 0.02, Stop.RESET]) as server:
        upstream = AiohttpUpstream(server.url, Limits())
        assert (await ask(upstream)).ended
        await upstream.close()


async def test_it_waits_for_more_after_a_bad_chunk_header() -> None:
    wire = OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"
    script: Script = [wire, 0.02, b"zz\r\n", Stop.FOREVER]
    async with ScriptedUpstream(script) as server:
        upstream = AiohttpUpstream(server.url, Limits())
        heard = Heard()
        exchange = upstream.start(POST, heard)
        await until(lambda: server.written == len(wire) + 4)
        await farewells()
        assert heard.body == b"abc"
        assert not heard.over.is_set()
        exchange.abort()
        await upstream.close()


async def test_it_sets_no_header_of_its_own() -> None:
    async with ScriptedUpstream([answer(b"ok")]) as server:
        upstream = AiohttpUpstream(server.url, Limits())
        await ask(upstream)
        await upstream.close()
        assert server.heads()[0].keys() == {b"host", b"content-type", b"content-length"}
