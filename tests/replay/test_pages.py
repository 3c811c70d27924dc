"""Pages that are read and orders that are posted, within bounds."""

import pytest

import replay.pages
from replay.pages import Site
from replay.target import NotAllowedError
from tests.fakes import ScriptedUpstream, Stop, answer
from tests.replay.runkit import LOCAL

JSON = b"application/json"


async def test_a_page_is_read_as_it_is() -> None:
    async with ScriptedUpstream([answer(b"# metrics\nx 1\n", kind=b"text/plain")]) as server:
        site = Site(server.url + "/metrics", LOCAL)
        assert await site.get() == b"# metrics\nx 1\n"
        await site.close()
        assert server.requests[0].startswith(b"GET /metrics HTTP/1.1\r\n")


async def test_a_bare_host_is_asked_for_its_root() -> None:
    async with ScriptedUpstream([answer(b"ok", kind=JSON)]) as server:
        site = Site(server.url, LOCAL)
        assert await site.get() == b"ok"
        await site.close()
        assert server.requests[0].startswith(b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize("script", [[Stop.CLOSE], [answer(b"no", b"HTTP/1.1 404 X\r\n", JSON)]])
async def test_no_page_is_none(script: list[bytes | Stop]) -> None:
    async with ScriptedUpstream(script) as server:
        site = Site(server.url + "/metrics", LOCAL)
        assert await site.get() is None
        await site.close()


async def test_an_order_is_taken_or_refused_with_its_reason() -> None:
    bad = answer(b'{"error":{"type":"Bad"}}', b"HTTP/1.1 400 X\r\n", JSON)
    async with ScriptedUpstream([answer(b"{}", kind=JSON)], [bad], [Stop.CLOSE]) as server:
        site = Site(server.url + "/lab/control", LOCAL)
        assert await site.post(b'{"a":1}') is None
        assert await site.post(b'{"a":1}') == "http 400: Bad"
        assert await site.post(b'{"a":1}') == "the connection was closed"
        await site.close()
        assert server.requests[0].endswith(b'\r\n\r\n{"a":1}')


def test_a_host_that_nobody_has_named_is_refused() -> None:
    with pytest.raises(NotAllowedError):
        Site("http://prod/metrics", LOCAL)


def test_a_page_is_not_waited_for_long() -> None:
    assert replay.pages.PAGE_S <= 5
