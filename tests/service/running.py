"""The whole sidecar inside a test: the real composition root, a scripted router, both ports, a real store."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from service.app import build, serve
from service.config import RuleSet, Settings, load_rules
from tests.fakes import Script, ScriptedClient, ScriptedUpstream, answer
from tests.waiting import farewells, until

NO_WORKERS: Script = [answer(b'{"workers": []}', kind=b"application/json")]
"""What the router says when the sidecar asks, at its start, who is there."""


@dataclass
class Running:
    """Where a running sidecar is."""

    data_port: int
    admin: httpx.AsyncClient
    upstream: ScriptedUpstream
    database: Path

    async def client(self) -> ScriptedClient:
        return await ScriptedClient.connect(self.data_port)

    async def ask(self, path: bytes, body: bytes, *headers: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
        client = await self.client()
        await client.post(path, body, *headers)
        try:
            return await asyncio.wait_for(client.response(), 50)
        finally:
            client.leave()

    async def metric(self, line: str) -> float:
        """The value of one series, as a scrape would see it after the next tick."""
        await asyncio.sleep(0.3)
        text = (await self.admin.get("/metrics")).text
        return float(next(one for one in text.splitlines() if one.startswith(line + " ")).split()[-1])


@asynccontextmanager
async def running(
    folder: Path, *scripts: Script, rules: RuleSet | None = None, **settings: object
) -> AsyncIterator[Running]:
    """Start, hand over, and stop by the signal that an orchestrator sends."""
    database = folder / "specguard.db"
    async with ScriptedUpstream(NO_WORKERS, *scripts) as upstream:
        wanted: dict[str, object] = {
            "router": upstream.url,
            "data_port": 0,
            "admin_port": 0,
            "store": f"sqlite+aiosqlite:///{database}",
            "ask_growth": False,
        }
        sidecar = build(Settings.model_validate(wanted | settings), rules or load_rules())
        ports: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(serve(sidecar, lambda *both: ports.set_result(both)))
            serving.add_done_callback(lambda _: ports.done() or ports.cancel())
            data_port, admin_port = await ports
            base = f"http://127.0.0.1:{admin_port}"
            await until(lambda: upstream.requests)
            async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=10) as admin:
                yield Running(data_port, admin, upstream, database)
            if not serving.done():
                os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        await farewells()
