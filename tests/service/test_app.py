"""The whole sidecar: it starts, guards, tells, keeps, and stops in order."""

import asyncio
import gc
import json
import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.app import PortTakenError, build, serve
from service.config import Settings, load_rules
from tests.fakes import Stop
from tests.guarding import CHAT, body, chat, head, pieces
from tests.service.running import Running, running
from tests.waiting import until

pytestmark = pytest.mark.anyio

LOOP = chat(*["the cat sat on the mat. "] * 120)


@pytest.fixture(autouse=True)
def _the_collector_as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


async def told(sidecar: Running, what: str) -> list[dict[str, Any]]:
    """What the API lists, once the writer has written: it does so each second."""
    while True:
        found: list[dict[str, Any]] = (await sidecar.admin.get(f"/api/{what}")).json()[what]
        if found:
            return found
        await asyncio.sleep(0.05)


async def test_a_clean_stream_passes_byte_for_byte_and_is_counted(tmp_path: Path) -> None:
    answer = chat("hello", " there")
    async with running(tmp_path, [head(), *pieces(*answer)]) as sidecar:
        status, _, received = await sidecar.ask(CHAT, body())
        assert (status, received) == (200, b"".join(answer))
        clean = 'specguard_streams_total{outcome="clean",policy="observe",route="default"}'
        assert await sidecar.metric(clean) == 1
        assert await sidecar.metric("specguard_loop_lag_seconds_count") > 0


async def test_a_corrupted_generation_is_taken_back_kept_and_told(tmp_path: Path) -> None:
    bad, good = [head(), *pieces(*LOOP)], [head(), *pieces(*chat("hello"))]
    async with running(tmp_path, bad, good, policy="protect") as sidecar:
        status, _, received = await sidecar.ask(CHAT, body())
        assert (status, received) == (200, b"".join(chat("hello")))
        incidents = await told(sidecar, "incidents")
        cases = (await sidecar.admin.get("/api/cases")).json()["cases"]
        assert [(one["outcome"], one["kind"]) for one in incidents] == [("recovered", "repetition")]
        assert [one["level"] for one in incidents[0]["attempts"]] == ["corrupt", "clean"]
        assert [one["id"] for one in cases] == [incidents[0]["case_id"]]
        assert await sidecar.metric('specguard_cases_total{result="saved"}') == 1
        assert await sidecar.metric('specguard_added_latency_seconds_count{phase="first_byte"}') == 1
        assert await sidecar.metric("specguard_unknown_counts_total") == 0
    assert len(sidecar.upstream.requests) == 1 + 2


async def test_full_capture_keeps_what_was_taken_back(tmp_path: Path) -> None:
    bad, good = [head(), *pieces(*LOOP)], [head(), *pieces(*chat("hello"))]
    async with running(tmp_path, bad, good, policy="protect", capture="full") as sidecar:
        await sidecar.ask(CHAT, body())
        (row,) = await told(sidecar, "cases")
        case = (await sidecar.admin.get(f"/api/cases/{row['id']}")).json()
    taken_back, delivered = case["attempts"]
    assert taken_back["answer"].endswith("the cat sat on the mat. ")
    assert delivered["answer"] == "hello"
    assert case["request"]["body"]["messages"][0]["content"] == "hello there"


async def test_a_store_that_cannot_be_opened_stops_no_stream(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where a folder should be")
    bad, good = [head(), *pieces(*LOOP)], [head(), *pieces(*chat("hello"))]
    store = f"sqlite+aiosqlite:///{tmp_path / 'file' / 'x.db'}"
    async with running(tmp_path, bad, good, policy="protect", store=store) as sidecar:
        status, _, received = await sidecar.ask(CHAT, body())
        assert (status, received) == (200, b"".join(chat("hello")))
        assert (await sidecar.admin.get("/readyz")).status_code == 200
        assert (await sidecar.admin.get("/api/incidents")).status_code == 503
        assert await sidecar.metric("specguard_store_errors_total") >= 1


async def test_what_was_kept_is_written_before_the_process_ends(tmp_path: Path) -> None:
    async with running(tmp_path, [head(), *pieces(*LOOP)]) as sidecar:
        await sidecar.ask(CHAT, body())
    with sqlite3.connect(sidecar.database) as connection:
        assert connection.execute("SELECT outcome FROM incidents").fetchall() == [("marked",)]
    connection.close()


async def test_open_streams_end_before_the_process_does(tmp_path: Path) -> None:
    slow = [head(), *pieces(*chat("one", " two", " three"), pause_s=0.1)]
    async with running(tmp_path, slow) as sidecar:
        client = await sidecar.client()
        await client.post(CHAT, body())
        await until(lambda: sidecar.upstream.written)
        os.kill(os.getpid(), signal.SIGTERM)
        _, _, received = await asyncio.wait_for(client.response(), 50)
        client.leave()
        assert received == b"".join(chat("one", " two", " three"))


async def test_a_second_signal_ends_what_is_still_open(tmp_path: Path) -> None:
    endless = [head(), *pieces(*chat("one")[:1], end=False), 60.0]
    async with running(tmp_path, endless) as sidecar:
        client = await sidecar.client()
        await client.post(CHAT, body())
        await until(lambda: len(sidecar.upstream.requests) == 2)
        os.kill(os.getpid(), signal.SIGTERM)
        while (await sidecar.admin.get("/readyz")).status_code != 503:  # noqa: ASYNC110 - only the API tells
            await asyncio.sleep(0.01)
        # `running` sends the second signal; the stream must not outlive it
    client.leave()


async def test_a_strict_route_is_not_ready_without_its_router(tmp_path: Path) -> None:
    async with running(tmp_path, [], routes=[{"name": "agents", "policy": "strict"}]) as sidecar:
        while (await sidecar.admin.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - only the API tells
            await asyncio.sleep(0.05)
        assert (await sidecar.admin.get("/readyz")).json()["without_router"] == "not ready"


async def test_live_streams_show_what_is_in_flight(tmp_path: Path) -> None:
    endless = [head(), *pieces(*chat("one")[:1], end=False), Stop.FOREVER]
    async with running(tmp_path, endless) as sidecar:
        client = await sidecar.client()
        await client.post(CHAT, body(rid="r-of-the-client"))
        seen: list[dict[str, object]] = []
        async with sidecar.admin.stream("GET", "/api/streams") as events:
            async for line in events.aiter_lines():
                seen += json.loads(line.removeprefix("data: "))["streams"] if line else []
                if seen:
                    break
        client.leave()
    assert (seen[0]["rid"], seen[0]["policy"], seen[0]["level"]) == ("r-of-the-client", "observe", "clean")


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = Settings(router="http://127.0.0.1:1", data_port=port, admin_port=0)
        with pytest.raises(PortTakenError, match=f"data port 127.0.0.1:{port}: Address already in use"):
            await serve(build(settings, load_rules()), lambda *_: None)
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240 - a test's own folder
