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

import pytest

from replay.child import free_port
from replay.demo.sidecar import Sidecar
from replay.lab.router import Router
from replay.lab.scenario import SCENARIOS
from replay.lab.stage import Stage
from service.edges.boards import BOARDS
from tests.observed.observatory import Observatory

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).parents[2]
SERVE: Final = [sys.executable, "-m", "service", "serve"]
SECONDS: Final = 90.0
LOOK_S: Final = 1.0
NEEDS_MORE: Final = {
    "What engines say of corrupted state": "a real engine's log; the lab's check nothing",
    "Probes": "a probe in a real engine",
    "The baseline each worker is held against": "hours of traffic",
    "Evidence that acceptance fell": "the same",
    "Workers under suspicion": "the same",
}
"""Panels that this stage cannot fill, and what would."""


def asked(expr: str) -> str:
    """A panel's expression as Grafana would send it, for all jobs and a scrape a second."""
    return expr.replace("$job", ".*").replace("$__rate_interval", "30s")


def place(url: str) -> str:
    return urlsplit(url).netloc


async def watch(observatory: Observatory, fired: set[str], routed: dict[str, str]) -> None:
    """Collect alerts as they come and go."""
    while True:
        fired.update(await observatory.firing())
        routed.update(await observatory.routed())
        await asyncio.sleep(LOOK_S)


async def silent_panels(observatory: Observatory) -> dict[str, list[str]]:
    """Panels with a query that no series answers though it could, by board."""
    silent: dict[str, list[str]] = {}
    for board in BOARDS:
        for panel in board.panels:
            found = [await observatory.query(asked(one.expr)) for one in panel.queries]
            if not all(found) and panel.title not in NEEDS_MORE:
                silent.setdefault(board.uid, []).append(panel.title)
    return silent


async def test_every_panel_has_series_and_alerts_fire_and_are_routed(tmp_path: Path) -> None:
    fired: set[str] = set()
    routed: dict[str, str] = {}
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
            silent = await silent_panels(observatory)
            watching.cancel()
    told = {"fired": sorted(fired), "routed": routed, "silent": silent}
    sys.stderr.write(json.dumps(told, indent=2) + "\n")
    assert silent == {}
    assert fired
    assert fired <= set(routed)
