"""The load-back collapse, played on the lab behind the real router, as the sidecar sees it. Opt-in, 150 s.

    .venv/bin/python -m pytest tests/service/live_fleet.py --timeout 400

Nothing is scripted: the lab's host tier loses the draft's index, acceptance falls on both decode workers and
every answer stays right, until the caches are flushed.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from replay.child import free_port
from replay.lab.router import Router
from replay.lab.scenario import SCENARIOS
from replay.lab.stage import Stage

SECONDS = 150.0
SCRAPE_S = 0.5
"""The fleet's judge looks each 15 s; scraping faster than in production only fills the baseline sooner."""


@asynccontextmanager
async def sidecar(router: str, data_port: int, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    admin_port = free_port()
    environment = os.environ | {
        "SPECGUARD_DATA_PORT": str(data_port),
        "SPECGUARD_ADMIN_PORT": str(admin_port),
        "SPECGUARD_TELEMETRY__SCRAPE_S": str(SCRAPE_S),
    }
    command = [
        str(Path(sys.prefix) / "bin" / "specguard"),
        "serve",
        "--router",
        router,
        "--policy",
        "observe",
    ]
    store = ["--store", f"sqlite+aiosqlite:///{folder / 'specguard.db'}"]
    with (folder / "sidecar.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, *store, env=environment, stderr=log)
    try:
        base = f"http://127.0.0.1:{admin_port}"
        async with httpx.AsyncClient(trust_env=False, base_url=base, timeout=10) as admin:
            await _ready(admin)
            yield admin
    finally:
        process.terminate()
        await process.wait()


async def _ready(admin: httpx.AsyncClient) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                if (await admin.get("/readyz")).is_success:
                    return
            except httpx.ConnectError:
                pass
            await asyncio.sleep(0.1)


async def _watched(admin: httpx.AsyncClient, phases: list[str], seen: dict[str, set[str]]) -> None:
    """The states of all workers, by the phase in which they were first told."""
    while True:
        await asyncio.sleep(5)
        workers: list[dict[str, Any]] = (await admin.get("/api/workers")).json()["workers"]
        states = {one["state"] for worker in workers for one in worker["acceptance"]}
        seen.setdefault(phases[-1] if phases else "", set()).update(states)


async def test_a_load_back_collapse_is_seen_and_its_cure_too(tmp_path: Path) -> None:
    data_port, phases, seen = free_port(), list[str](), dict[str, set[str]]()
    async with (
        Stage(SCENARIOS["loadback-collapse"], SECONDS, target=f"http://127.0.0.1:{data_port}") as stage,
        Router(stage.lab, tmp_path / "router.log") as router,
        sidecar(router.url, data_port, tmp_path) as admin,
        asyncio.TaskGroup() as tasks,
    ):
        watching = tasks.create_task(_watched(admin, phases, seen), name="watch")
        await stage.play(lambda line: phases.append(line.partition(":")[0]))
        watching.cancel()
        workers = (await admin.get("/api/workers")).json()["workers"]
        told = (await admin.get("/metrics")).text
    assert "fallen_with_peers" not in seen["busy"]
    assert "fallen_with_peers" in seen["load-back collapse"]
    scraped = [one for worker in workers for one in worker["acceptance"] if one["source"] == "metrics"]
    assert {one["state"] for one in scraped} == {"no_evidence"}
    assert any(worker["trouble"].get("load_back_tokens_total") for worker in workers)
    assert "specguard_fallen_models 0.0" in told
