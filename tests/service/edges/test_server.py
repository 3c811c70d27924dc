"""The start-up check of the server's `send`, against servers that pass and servers that do not."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import uvicorn

from service.edges.outlet import Message, Receive, Send, Sending
from service.edges.server import App, best_sending, data_config


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


def behind(middleware: Callable[[Send], Send]) -> Callable[[App], uvicorn.Config]:
    def config(app: App) -> uvicorn.Config:
        async def wrapped(scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
            await app(scope, receive, middleware(send))

        return data_config(wrapped, host="127.0.0.1", port=0)

    return config


async def test_on_our_own_server_chunks_can_be_written_directly() -> None:
    assert await best_sending() is Sending.DIRECT


async def test_behind_plain_middleware_a_send_can_still_be_stepped() -> None:
    def middleware(send: Send) -> Send:
        async def through(message: Message) -> None:
            await send(message)

        return through

    assert await best_sending(behind(middleware)) is Sending.STEPPED


async def test_middleware_that_asks_for_the_current_task_is_found_out() -> None:
    def middleware(send: Send) -> Send:
        async def within(message: Message) -> None:
            async with asyncio.timeout(50):
                await send(message)

        return within

    assert await best_sending(behind(middleware)) is Sending.TASK


async def test_a_send_that_always_waits_a_turn_is_found_out() -> None:
    def middleware(send: Send) -> Send:
        async def later(message: Message) -> None:
            await asyncio.sleep(0)
            await send(message)

        return later

    assert await best_sending(behind(middleware)) is Sending.TASK


def test_the_router_speaks_for_itself() -> None:
    async def app(scope: Mapping[str, Any], receive: Receive, send: Send) -> None: ...

    config = data_config(app, host="127.0.0.1", port=0, grace_s=30.0)
    assert (config.server_header, config.date_header, config.proxy_headers) == (False, False, False)
    assert config.timeout_graceful_shutdown == 30
