"""The admin port runs on a thread and loop of its own, and stops when it is told."""

import asyncio
import socket
import threading
from typing import Any

import httpx
import pytest

from service.edges.admin import AdminServer, listener


async def app(_: dict[str, Any], __: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own
    body = threading.current_thread().name.encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def test_it_answers_from_its_own_thread_until_it_is_stopped() -> None:
    beside: list[str] = []

    async def watch() -> None:
        beside.append(threading.current_thread().name)
        await asyncio.Event().wait()

    with listener("127.0.0.1", 0) as bound:
        server = AdminServer(app, bound, watch)
        server.start()
        answer = httpx.get(f"http://127.0.0.1:{server.port}/", trust_env=False)
        assert answer.text == "admin"
        server.stop()
        assert beside == ["admin"]
        assert repr(server).endswith("stopped>")


def test_a_taken_port_is_an_error_at_once() -> None:
    with listener("127.0.0.1", 0) as bound, pytest.raises(OSError, match="in use"):
        listener("127.0.0.1", bound.getsockname()[1])


def test_stopping_before_the_start_is_harmless() -> None:
    with listener("127.0.0.1", 0) as bound:
        AdminServer(app, bound).stop()


def test_an_ipv6_host_is_bound_as_such() -> None:
    with listener("::1", 0) as bound:
        assert bound.family == socket.AF_INET6
