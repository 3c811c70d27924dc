"""Each alert that the lab, a client or a disk can provoke, seen end to end.

An act throws the lab's switches behind the real router and the sidecar; a real Prometheus scrapes with the
shipped rules (their `for` left out), a real Alertmanager routes and inhibits as shipped. Not collected by
default: `make check-dashboards` runs it, some eight minutes; ARGS="-k stuck" runs one act.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from replay.child import free_port
from replay.demo.sidecar import Sidecar
from replay.lab.router import Router
from replay.lab.stage import Stage
from service.edges.store import QUEUE_MAX
from tests.fakes import OK, Script, ScriptedClient, ScriptedUpstream, Stop, answer
from tests.guarding import CHAT, body
from tests.observed.acts import ACTS, Act, Scene
from tests.observed.observatory import Observatory, Routed
from tests.observed.panels import silent
from tests.service.running import NO_WORKERS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).parents[2]
SERVE: Final = [sys.executable, "-m", "service", "serve"]
LOOK_S: Final = 1.0
LARGE, LARGE_BYTES = 30, 7_600_000
"""Answers under way, each a little less than may be held of one; together over four fifths of the memory."""
LOOP: Final = "the cat sat on the mat. " * 120
AT_ONCE: Final = 16
RECEIVER: Final = {"critical": "page", "warning": "ticket"}
SEVERITY: Final = {
    rule["alert"]: rule["labels"]["severity"]
    for group in yaml.safe_load((ROOT / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


class Told(Sidecar):
    """The demo's sidecar with settings of its own."""

    more: Mapping[str, Any] = {}

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | dict(self.more)


def place(url: str) -> str:
    return urlsplit(url).netloc


class Watch:
    """What was seen of alerts since it began."""

    def __init__(
        self,
        fires: frozenset[str],
        inhibited: frozenset[str] = frozenset(),
        panels: frozenset[str] = frozenset(),
    ) -> None:
        self._fires, self._inhibited = fires, inhibited
        self.silent: list[str] = sorted(panels)
        self.fired: set[str] = set()
        self.routed: dict[str, Routed] = {}
        self.silenced: set[str] = set()

    @property
    def complete(self) -> bool:
        told = self._fires <= self.fired & self.routed.keys() and self._inhibited <= self.silenced
        return told and not self.silent

    async def until_complete(self, observatory: Observatory) -> None:
        while not self.complete:
            self.fired |= await observatory.firing()
            for name, how in (await observatory.routed()).items():
                self.routed[name] = how
                self.silenced |= {name} if how.inhibited else set()
            self.silent = await silent(observatory, self.silent)
            await asyncio.sleep(LOOK_S)

    def judge(self, act: str) -> None:
        told = {"act": act, "fired": sorted(self.fired), "inhibited": sorted(self.silenced)}
        sys.stderr.write(json.dumps(told) + "\n")
        assert self._fires <= self.fired
        assert self._fires <= self.routed.keys()
        assert self._inhibited <= self.silenced
        assert self.silent == []
        assert {name: how.receiver for name, how in self.routed.items()} == {
            name: RECEIVER[SEVERITY[name]] for name in self.routed
        }


@asynccontextmanager
async def staged(name: str, act: Act, folder: Path) -> AsyncIterator[tuple[Scene, Router]]:
    port = free_port()
    stage = Stage(act.scenario(name, folder), act.seconds, target=f"http://127.0.0.1:{port}", seed=1)
    async with stage, Router(stage.lab, folder / "router.log") as router:
        sidecar = Told(SERVE, router.url, folder, data_port=port)
        sidecar.more = act.settings(stage, folder)
        async with sidecar:
            yield Scene(stage, sidecar, folder, asyncio.Event()), router


def targets(scene: Scene, router: Router) -> dict[str, list[str]]:
    return {
        "specguard": [place(scene.sidecar.admin_url)],
        "smg": [place(router.metrics_url)],
        "sglang": [place(worker.url) for worker in scene.stage.lab.workers],
    }


async def seen(act: Act, watch: Watch, scene: Scene, observatory: Observatory) -> None:
    """Until all was seen."""
    await scene.observed.wait()
    if act.history:
        instance = place(scene.stage.lab.prefill[0].url)
        labels = f'job="sglang",instance="{instance}",engine_type="prefill"'
        await observatory.remember(f"sglang:{act.history}{{{labels}}}", 0.8)
    async with observatory:
        await watch.until_complete(observatory)


async def play(act: Act, watch: Watch, scene: Scene, observatory: Observatory) -> None:
    """Let it all go on until the alerts were seen, or the time is over."""
    if not act.late:
        scene.observed.set()
    with suppress(TimeoutError):
        async with asyncio.timeout(act.seconds), asyncio.TaskGroup() as group:
            playing = group.create_task(
                scene.stage.play(lambda line: sys.stderr.write(f"{line}\n")), name="play"
            )
            also = group.create_task(act.also(scene), name="also")
            await seen(act, watch, scene, observatory)
            playing.cancel()
            also.cancel()


@pytest.mark.parametrize("name", ACTS)
async def test_what_goes_wrong_is_told_by_its_alerts_and_reaches_who_should_hear_it(
    name: str, tmp_path: Path
) -> None:
    act = ACTS[name]
    watch = Watch(act.fires, act.inhibited, act.panels)
    async with staged(name, act, tmp_path) as (scene, router):
        await play(act, watch, scene, Observatory(tmp_path, ROOT, targets(scene, router)))
    watch.judge(name)


# --- what no lab makes ---


@asynccontextmanager
async def scripted(folder: Path, script: Script, **more: object) -> AsyncIterator[Told]:
    """A sidecar whose router answers every request alike."""
    async with ScriptedUpstream(NO_WORKERS, script) as router:
        sidecar = Told(SERVE, router.url, folder)
        sidecar.more = more
        async with sidecar:
            yield sidecar


async def watched(name: str, alert: str, sidecar: Told, folder: Path) -> None:
    watch = Watch(frozenset({alert}))
    with suppress(TimeoutError):
        async with Observatory(folder, ROOT, {"specguard": [place(sidecar.admin_url)]}) as observatory:
            async with asyncio.timeout(200):
                await watch.until_complete(observatory)
    watch.judge(name)


async def test_answers_that_fill_the_hold_back_memory_are_told(tmp_path: Path) -> None:
    beginning = OK + b"content-type: application/json\r\ncontent-length: 8000000\r\n\r\n"
    script: Script = [beginning + b'{"text": "' + b"x" * LARGE_BYTES, Stop.FOREVER]
    async with scripted(tmp_path, script, policy="strict") as sidecar:
        clients = [await ScriptedClient.connect(sidecar.port) for _ in range(LARGE)]
        for client in clients:
            await client.post(CHAT, body(stream=False))
        await watched("memory", "SpecGuardHeldBytesHigh", sidecar, tmp_path)
        for client in clients:
            client.leave()


def whole(text: str, tokens: int) -> Script:
    """An answer that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    said = {"id": "r1", "choices": [choice], "usage": {"completion_tokens": tokens}}
    return [answer(json.dumps(said).encode(), kind=b"application/json")]


async def ask(port: int, times: int, pause_s: float = 0.0) -> None:
    client = await ScriptedClient.connect(port)
    try:
        for _ in range(times):
            await client.post(CHAT, body(stream=False))
            await client.response()
            await asyncio.sleep(pause_s)
    finally:
        client.leave()


async def test_answers_in_many_scripts_at_once_are_told(tmp_path: Path) -> None:
    """The lab's words are ASCII, and what it answers is never garbled."""
    rng = Random(1)
    blocks = [(0x4E00, 5000), (0x600, 100), (0x400, 200), (0x1100, 100), (0xFFFD, 1)]
    text = "".join(chr(first + rng.randrange(many)) for first, many in rng.choices(blocks, k=1500))
    async with (
        scripted(tmp_path, whole(text, 1500), policy="protect") as sidecar,
        asyncio.TaskGroup() as group,
    ):
        asking = group.create_task(ask(sidecar.port, 10_000, 0.2), name="client")
        await watched("garbled", "SpecGuardGarbledRateHigh", sidecar, tmp_path)
        asking.cancel()


async def overflow(port: int) -> None:
    """Fill the queue, and go on: a counter that rose before the first scrape never seems to rise."""
    await ask(port, -(-QUEUE_MAX // AT_ONCE) + 20)
    await ask(port, 1000, pause_s=0.5)


async def test_incidents_that_no_disk_takes_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where a folder should be")
    store = f"sqlite+aiosqlite:///{tmp_path / 'file' / 'x.db'}"
    async with (
        scripted(tmp_path, whole(LOOP, 840), policy="observe", store=store) as sidecar,
        asyncio.TaskGroup() as group,
    ):
        clients = [group.create_task(overflow(sidecar.port), name=f"client-{n}") for n in range(AT_ONCE)]
        await watched("disk", "SpecGuardCasesDropped", sidecar, tmp_path)
        for client in clients:
            client.cancel()
