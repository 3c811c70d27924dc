"""The acts of `live_alerts.py`: what goes wrong in each, and which alerts must tell of it.

Nothing is scripted but what is wrong: the lab's switches are thrown, clients or a probe misbehave, and the
rules see what lab and sidecar then expose.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx

from replay.demo.sidecar import Sidecar
from replay.lab.scenario import CACHED, CALM, DRAFT_BROKEN, DRIFT, Phase, Scenario
from replay.lab.serve import Options
from replay.lab.stage import Stage
from replay.lab.workloads import Plan, sessions
from tests.probing import Worker

SMALL: Final = Options(prefill=1, decode=2, pages=256, step_ms=4)
SCRAPE_S: Final = 0.5
"""The fleet's judge wants samples by number; scraping faster than in production only brings them sooner."""

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """Where an act is played."""

    stage: Stage
    sidecar: Sidecar
    folder: Path
    observed: asyncio.Event
    """Prometheus begins with it: rules over minutes then see nothing that was before."""


async def nothing(_: Scene) -> None:
    """No more than the stage's own agents do."""


def plain(_: Stage, __: Path) -> Settings:
    return {"telemetry": {"scrape_s": SCRAPE_S}}


@dataclass(frozen=True, slots=True)
class Act:
    """One situation, of so many seconds at most: it is over once all its alerts were seen."""

    phases: tuple[Phase, ...]
    seconds: float
    fires: frozenset[str]
    inhibited: frozenset[str] = frozenset()
    """Silenced by the shipped routing, because another alert says the same."""
    options: Options = SMALL
    settings: Callable[[Stage, Path], Settings] = plain
    """Of the sidecar, beyond the demo's."""
    late: bool = False
    """Prometheus does not begin before `also` says so."""
    history: str = ""
    """A gauge of the prefill worker that has a day at 0.8 behind it when Prometheus begins."""
    panels: frozenset[str] = frozenset()
    """Titles of panels that have series by then, and nowhere sooner."""
    also: Callable[[Scene], Coroutine[Any, Any, None]] = nothing

    def scenario(self, name: str, folder: Path) -> Scenario:
        log = folder / "engine.log" if self.options.engine_log else None
        return Scenario(name, "an act", self.phases, replace(self.options, log_path=log))


# --- what more is set, and what more is done ---


def engine_log(stage: Stage, folder: Path) -> Settings:
    """Follow the lab's one log as that of the first decode worker."""
    logs = [{"path": str(folder / "engine.log"), "worker": stage.lab.decode[0].url}]
    return {"telemetry": {"scrape_s": SCRAPE_S, "logs": logs}}


def observing(_: Stage, __: Path) -> Settings:
    return {"policy": "observe", "telemetry": {"scrape_s": SCRAPE_S}}


def indexed(_: Stage, __: Path) -> Settings:
    return {"provenance": {"on": True}}


def crowded(_: Stage, folder: Path) -> Settings:
    return {"limits": {"streams": 8}, "telemetry": {"socket": str(folder / "probe.sock")}}


TENANTS: Final = 12
"""One agent each, so that whoever shares a slot with another shares it with a stranger."""


async def tenants(scene: Scene) -> None:
    """Send requests with an authorization of their own, for as long as the act lasts."""

    async def work(http: httpx.AsyncClient, tenant: int) -> None:
        rng, number = Random(tenant), 0
        while True:
            number += 1
            for step in next(sessions(tenant, number, Plan(10))):
                body = {
                    "rid": f"{rng.getrandbits(128):032x}",
                    "text": step.task.prompt,
                    "sampling_params": {"max_new_tokens": 120, "temperature": 0},
                    "stream": True,
                }
                with suppress(httpx.HTTPError):  # an answer that was found bad too late breaks off
                    await http.post("/generate", json=body, headers={"authorization": f"Bearer {tenant}"})

    async with (
        httpx.AsyncClient(base_url=scene.sidecar.url, trust_env=False, timeout=60) as http,
        asyncio.TaskGroup() as group,
    ):
        for tenant in range(TENANTS):
            group.create_task(work(http, tenant), name=f"tenant-{tenant}")


async def stand_aside(scene: Scene) -> None:
    """A probe meets an engine that it does not know, says so, and falls silent."""
    word = Worker(scene.stage.lab.decode[0].url).status("engine 9.9.9 is not one that I know", aside=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as source:
        source.sendto(word, str(scene.folder / "probe.sock"))


async def prove(scene: Scene) -> None:
    """Post to the first case what a replay of it would: `increase` counts from the second on."""
    told = {
        "verdict": "LOAD-DEPENDENT", "reproduced": True, "p": 0.0001, "requests": 600, "seconds": 90.0,
        "plan_hash": "ab",
    }  # fmt: skip
    async with httpx.AsyncClient(base_url=scene.sidecar.admin_url, trust_env=False, timeout=30) as admin:
        while not (cases := (await admin.get("/api/cases")).json()["cases"]):  # noqa: ASYNC110 - it is remote
            await asyncio.sleep(1)
        while True:
            (await admin.post(f"/api/cases/{cases[0]['id']}/replays", json=told)).raise_for_status()
            await asyncio.sleep(2)


async def hang(scene: Scene) -> None:
    """Let a scheduler hang while it runs requests whose clients are patient."""
    url = scene.stage.lab.decode[0].url
    body = {"text": "# ", "sampling_params": {"max_new_tokens": 400, "ignore_eos": True}, "stream": True}

    async def ask(http: httpx.AsyncClient) -> None:
        with suppress(httpx.HTTPError):
            await http.post(f"{scene.sidecar.url}/generate", json=body)

    async with httpx.AsyncClient(trust_env=False, timeout=600) as http, asyncio.TaskGroup() as group:
        await asyncio.sleep(10)  # all is well, and gauges have values
        await http.post(f"{url}/lab/control", json={"step_ms": 300})
        for number in range(8):
            group.create_task(ask(http), name=f"patient-{number}")
        await asyncio.sleep(3)
        await http.post(f"{url}/lab/control", json={"stuck": True})
        scene.observed.set()


async def end(scene: Scene) -> None:
    """Sidecar and lab end, as after a bad deploy."""
    await asyncio.sleep(5)
    await scene.sidecar.stop()
    await scene.stage.lab.stop()


# --- the acts ---

EIGHT: Final = replace(CALM, agents=8, pause_s=0.05)
LATE_WRITES: Final = Phase(
    "late writes",
    "prefill's writes are so long on the wire that decode gives their slots up",
    agents=8,
    decode={"race": "deferred", "waiting_s": 0.2, "drain_s": 0.1},
    prefill={"layer_ms": 150.0},
)
LOOPS: Final = Phase(
    "loops",
    "every request loses its KV and loops; n-grams draft what comes next, and all of it is accepted",
    agents=8,
    decode={"fault": "zero", "rate": 1.0, "onset": [4, 4], "drafter": "ngram"},
)
NOISE: Final = Phase(
    "noise",
    "half of the requests lose pages of their KV to noise",
    agents=8,
    pause_s=0.05,
    decode={"fault": "random", "rate": 0.5, "onset": [4, 16]},
)
SWAPPED: Final = Phase(
    "swapped",
    "half of the requests go on in another tenant's slot",
    agents=0,
    decode={"fault": "swap_both", "rate": 0.5, "onset": [4, 8]},
)
CROWD: Final = Phase(
    "crowd",
    "more clients than prefill can serve and than the sidecar takes on",
    agents=40,
    pause_s=0.01,
    prefill={"prefill_ms": 300.0},
)

ACTS: Final = {
    "drafts": Act(
        (replace(EIGHT, share=50), replace(DRAFT_BROKEN, agents=8, pause_s=0.05, share=150)),
        200,
        frozenset({"SpecGuardAcceptanceFallen", "SpecGuardAcceptLengthCollapsed"}),
        inhibited=frozenset({"SpecGuardAcceptLengthCollapsed"}),
        panels=frozenset({"The baseline each worker is held against", "Evidence that acceptance fell"}),
    ),
    "stuck": Act(
        (EIGHT,),
        200,
        frozenset({"SGLangDecodeNoProgress", "SpecGuardSpecGaugeFrozen", "SpecGuardWorkerSuspect"}),
        inhibited=frozenset({"SpecGuardSpecGaugeFrozen"}),
        late=True,
        also=hang,
        panels=frozenset({"Workers under suspicion"}),
    ),
    "late writes": Act(
        (replace(EIGHT, share=10), replace(LATE_WRITES, share=190)),
        200,
        frozenset(
            {
                "SGLangDeferredReleaseTimeout",
                "SGLangKVTransferFailures",
                "SpecGuardEngineEvidence",
                "SpecGuardRetryBudgetExhausted",
            }
        ),
        options=replace(SMALL, engine_log=True),
        settings=engine_log,
        panels=frozenset({"What engines say of corrupted state"}),
    ),
    "loops": Act(
        (LOOPS,),
        200,
        frozenset(
            {
                "SpecGuardAcceptRateSaturated",
                "SpecGuardCorruptionBurnFast",
                "SpecGuardCorruptionBurnSlow",
                "SpecGuardRepetitionRateHigh",
            }
        ),
        inhibited=frozenset({"SpecGuardCorruptionBurnSlow", "SpecGuardRepetitionRateHigh"}),
        settings=observing,
    ),
    "noise": Act(
        (NOISE,),
        200,
        frozenset({"SpecGuardReplayLoadDependent"}),
        also=prove,
    ),
    "tenants": Act(
        (SWAPPED,),
        200,
        frozenset({"SpecGuardCrossTalkAcrossTenants", "SpecGuardCrossTalkSuspected"}),
        inhibited=frozenset({"SpecGuardCrossTalkSuspected"}),
        settings=indexed,
        also=tenants,
    ),
    "crowd": Act(
        (CROWD,),
        200,
        frozenset({"SpecGuardFailOpen", "SGLangPrefillBacklogGrowing", "SpecGuardProbeMissing"}),
        settings=crowded,
        panels=frozenset({"Probes"}),
        also=stand_aside,
    ),
    "prefix": Act(
        (replace(DRIFT, agents=8, pause_s=0.01, prefill={"prefill_ms": 40.0}),),
        200,
        frozenset({"SGLangPrefixReuseCollapsed"}),
        options=CACHED,
        history="cache_hit_rate",
    ),
    "end": Act(
        (CALM,),
        200,
        frozenset({"SpecGuardDown", "SpecGuardTelemetrySilent"}),
        also=end,
    ),
}

SCRIPTED: Final = frozenset({"SpecGuardHeldBytesHigh", "SpecGuardCasesDropped", "SpecGuardGarbledRateHigh"})
"""Seen behind a router that answers by a script: no lab writes 200 MB, or thousands of bad answers."""

UNPROVOKED: Final = frozenset({"SpecGuardDraftBroken"})
"""Each stream must be suspect by itself: that takes 75 verify steps, and the lab's answers have 36."""

PROVOKED: Final = frozenset.union(SCRIPTED, *(act.fires for act in ACTS.values()))

ELSEWHERE: Final = frozenset.union(*(act.panels for act in ACTS.values()))
"""Panels that `ops-all` cannot fill; the acts do."""
