"""Everything together, observed.

The lab plays all its situations behind router and sidecar, a real Prometheus scrapes them with the shipped
rules, a real Alertmanager routes, and every panel of every dashboard is asked. Not collected by default:
`make check-dashboards` runs it, about two minutes.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

from replay.child import free_port
from replay.demo.sidecar import Sidecar
from replay.lab.router import Router
from replay.lab.scenario import SCENARIOS
from replay.lab.stage import Stage
from tests.observed.acts import ELSEWHERE
from tests.observed.observatory import Observatory, Routed
from tests.observed.panels import TITLES, silent

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).parents[2]
SERVE: Final = [sys.executable, "-m", "service", "serve"]
SECONDS: Final = 90.0
LOOK_S: Final = 1.0


def place(url: str) -> str:
    return urlsplit(url).netloc


async def watch(observatory: Observatory, fired: set[str], routed: dict[str, Routed]) -> None:
    """Collect alerts as they come and go."""
    while True:
        fired.update(await observatory.firing())
        routed.update(await observatory.routed())
        await asyncio.sleep(LOOK_S)


async def lint(admin_url: str) -> None:
    """What the sidecar exposes, after all that it has seen, in the eyes of promtool."""
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        page = (await client.get(f"{admin_url}/metrics")).content
    words, pipe = ("promtool", "check", "metrics"), asyncio.subprocess.PIPE
    checking = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
    said, complaints = await checking.communicate(page)
    assert (checking.returncode, said + complaints) == (0, b"")


async def test_every_panel_has_series_and_alerts_fire_and_are_routed(tmp_path: Path) -> None:
    fired: set[str] = set()
    routed: dict[str, Routed] = {}
    data_port = free_port()
    stage = Stage(SCENARIOS["ops-all"], SECONDS, target=f"http://127.0.0.1:{data_port}", seed=1)
    async with (
        stage,
        Router(stage.lab, tmp_path / "router.log") as router,
        Sidecar(SERVE, router.url, tmp_path, data_port=data_port) as sidecar,
    ):
        targets = {
            "specguard": [place(sidecar.admin_url)],
            "smg": [place(router.metrics_url)],
            "sglang": [place(worker.url) for worker in stage.lab.workers],
        }
        async with Observatory(tmp_path, ROOT, targets) as observatory, asyncio.TaskGroup() as group:
            watching = group.create_task(watch(observatory, fired, routed), name="watch")
            await stage.play(sys.stderr.write)
            mute = await silent(observatory, TITLES - ELSEWHERE)
            await lint(sidecar.admin_url)
            watching.cancel()
    told = {
        "fired": sorted(fired),
        "routed": {name: how.receiver for name, how in routed.items()},
        "silent": mute,
    }
    sys.stderr.write(json.dumps(told, indent=2) + "\n")
    assert mute == []
    assert fired
    assert fired <= set(routed)
