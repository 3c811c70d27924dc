"""Reading a request body: whole, within a cap and a time."""

import asyncio

import pytest

from service.core.events import Guilty
from service.edges.body import ClientGoneError, read_body
from service.edges.outlet import Message, Receive
from service.edges.refusals import RefusedError


def giving(*messages: Message) -> Receive:
    line = list(messages)

    async def receive() -> Message:
        if not line:
            await asyncio.Event().wait()
        return line.pop(0)

    return receive


def part(data: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": data, "more_body": more}


async def test_parts_make_a_body() -> None:
    receive = giving(part(b"a", more=True), part(b"", more=True), part(b"b", more=False))
    assert await read_body(receive, [], most_bytes=2, within_s=1) == b"ab"


async def test_a_body_may_be_as_large_as_the_cap_and_no_larger() -> None:
    assert await read_body(giving(part(b"abc", more=False)), [], most_bytes=3, within_s=1) == b"abc"
    with pytest.raises(RefusedError) as refused:
        await read_body(giving(part(b"abcd", more=False)), [], most_bytes=3, within_s=1)
    assert (refused.value.status, refused.value.guilty) == (413, Guilty.CLIENT)


async def test_a_declared_length_over_the_cap_is_refused_unread() -> None:
    with pytest.raises(RefusedError) as refused:
        await read_body(giving(), [(b"content-length", b"4")], most_bytes=3, within_s=1)
    assert refused.value.status == 413
    assert refused.value.headers == [(b"connection", b"close")]


async def test_a_body_that_does_not_come_is_a_timeout_of_the_clients() -> None:
    with pytest.raises(RefusedError) as refused:
        await read_body(giving(part(b"a", more=True)), [], most_bytes=3, within_s=0.01)
    assert (refused.value.status, refused.value.reason) == (408, "body_timeout")


async def test_a_client_that_leaves_is_no_refusal() -> None:
    with pytest.raises(ClientGoneError):
        await read_body(giving({"type": "http.disconnect"}), [], most_bytes=3, within_s=1)
