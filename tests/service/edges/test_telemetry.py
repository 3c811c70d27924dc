"""What engines say beside the streams reaches the streams, the metrics and nobody else."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from service.config.problem import ConfigProblem
from service.config.settings import EngineLog, Settings, TelemetrySettings, WorkerHint
from service.core.desk import Desk
from service.core.events import Drafter
from service.core.fleet_watch import LOOK_S
from service.edges.dataplane import DataPlane
from service.edges.fleet_gauges import FleetGauges
from service.edges.metrics import Metrics
from service.edges.router_admin import admin_client
from service.edges.tasks import Tasks
from service.edges.telemetry import Telemetry
from tests.fakes import ScriptedClient, ScriptedUpstream, answer
from tests.guarding import CHAT, ROUTED, body, chat, head, new_desk, pieces
from tests.probing import Worker
from tests.serving import serving
from tests.waiting import until

WORKER = "http://w:1"
MISMATCH = "[t] KV checksum mismatch req=r1 bootstrap_room=5 expected=0x1 got=0x2\n"


@asynccontextmanager
async def listening(
    settings: TelemetrySettings, *workers: str
) -> AsyncIterator[tuple[Telemetry, Desk, Tasks]]:
    desk, tasks = new_desk(), Tasks()
    async with admin_client() as client:
        telemetry = Telemetry(settings, desk, client, lambda: workers)
        try:
            telemetry.start(tasks)
            yield telemetry, desk, tasks
        finally:
            telemetry.close()
            await tasks.cancel()


def sent(path: Path, *datagrams: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as source:
        for datagram in datagrams:
            source.sendto(datagram, str(path))


async def test_where_nothing_is_set_nothing_listens() -> None:
    async with listening(TelemetrySettings(scrape_s=0), WORKER) as (telemetry, desk, tasks):
        telemetry.pull()
        telemetry.tick(1.0)
        assert desk.probes is None
        assert telemetry.receiver is None
        assert len(tasks) == 0


async def test_what_probes_tell_and_what_of_it_was_lost_is_counted(tmp_path: Path) -> None:
    path, worker = tmp_path / "probe.sock", Worker(WORKER)
    settings = TelemetrySettings(socket=str(path), scrape_s=0)
    async with listening(settings, WORKER) as (telemetry, desk, _):
        first, _lost, third = worker.series("r1", 1, 2, 3)
        sent(path, first, third, b"noise")
        telemetry.pull()
        telemetry.tick(monotonic())
        telemetry.tick(monotonic())
        assert desk.counts["probe_datagrams",] == desk.counts["probe_steps",] == 2
        losses = {key[1]: by for key, by in desk.counts.items() if key[0] == "probe_dropped"}
        assert losses == {"missed": 1, "gaps": 1, "foreign": 1}


async def test_probes_of_other_machines_need_the_key(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sixteen bytes or more")
    key.chmod(0o600)
    settings = TelemetrySettings(udp="127.0.0.1:0", key_file=str(key), scrape_s=0)
    async with listening(settings) as (telemetry, desk, _):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
            source.sendto(Worker(WORKER).series("r1", 1)[0] + bytes(16), ("127.0.0.1", telemetry.udp_port))
        telemetry.pull()
        telemetry.tick(1.0)
        assert desk.counts == {("probe_dropped", "bad_mac"): 1}


async def test_what_cannot_be_listened_on_is_the_configurations_fault(tmp_path: Path) -> None:
    taken = tmp_path / "probe.sock"
    taken.write_text("not a socket")
    with pytest.raises(ConfigProblem, match=r"telemetry: .*probe\.sock"):
        async with listening(TelemetrySettings(socket=str(taken), scrape_s=0)):
            pass
    assert taken.read_text() == "not a socket"


async def test_an_engines_own_words_become_evidence_about_its_worker(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("old lines are history\n" + MISMATCH)
    settings = TelemetrySettings(logs=(EngineLog(path=str(log), worker=WORKER),), scrape_s=0)
    async with listening(settings, WORKER) as (telemetry, desk, _):
        written = 0
        while not desk.ground.counts:  # what is written before the file is opened is history, too
            with log.open("a") as more:
                more.write(MISMATCH)
            written += 1
            await asyncio.sleep(0.1)
        telemetry.tick(1.0)
        ((key, said),) = desk.counts.items()
        assert key == ("engine_evidence", "checksum_mismatch", WORKER)
        assert said <= written
        assert desk.ground.said("r1", (), 0.0) == ("checksum_mismatch",)


async def test_slots_let_go_too_soon_are_seen_in_the_workers_metrics_too() -> None:
    first, second = (
        answer(b'sglang:decode_deferred_kv_release_total{outcome="timeout"} %d\n' % count, kind=b"text/plain")
        for count in (1, 4)
    )
    async with (
        ScriptedUpstream([first], [second]) as worker,
        listening(TelemetrySettings(scrape_s=0.02), worker.url) as (telemetry, desk, _),
    ):
        telemetry.tick(1.0)
        await until(lambda: desk.ground.counts)
        assert desk.ground.counts["deferred_release_timeout", worker.url] == 3


async def test_a_stream_is_exact_where_its_probe_is_heard(tmp_path: Path) -> None:
    """Chunks with the engine's id r1, whatever we called the request; the whole data plane."""
    path, worker = tmp_path / "probe.sock", Worker(WORKER)
    script = [head(ROUTED + WORKER.encode()), *pieces(*chat("a", "b", "c", usage=False))]
    async with ScriptedUpstream(script, script) as router:
        settings = Settings(
            router=router.url,
            workers=(WorkerHint(url=WORKER, drafter=Drafter.MODEL, draft_tokens=3),),
            telemetry=TelemetrySettings(socket=str(path), scrape_s=0),
        )
        plane = DataPlane(settings, new_desk(), lambda _, __: None)
        await plane.start()
        async with serving(plane.proxy) as running:
            client = await ScriptedClient.connect(running.port)
            sent(path, *worker.series("r1", 3, 0, 2))
            await client.post(CHAT, body())
            assert (await client.response())[2].endswith(b"data: [DONE]\n\n")
            client.leave()
        counts = plane.desk.counts
        assert counts["telemetry_streams", "exact"] == 1
        assert (counts["spec_verify_steps",], counts["spec_emitted_tokens",]) == (3, 8)
        await plane.stop()
        assert not path.exists()


async def test_prefill_workers_are_scraped_beside_those_that_decode() -> None:
    told = [answer(b'sglang:load_back_tokens_total{pool="host"} 5\nsglang:num_running_reqs 3\n')]
    desk = new_desk()
    async with ScriptedUpstream(told) as decode, ScriptedUpstream(told) as prefill, admin_client() as client:
        settings = TelemetrySettings()
        telemetry = Telemetry(settings, desk, client, lambda: [decode.url], lambda: [prefill.url])
        telemetry.tick(0.0)
        await telemetry.scraper.poll()
        telemetry.tick(monotonic() + LOOK_S)
    assert [worker.url for worker in desk.watch.view.workers] == [decode.url, prefill.url]
    assert all(worker.scraped for worker in desk.watch.view.workers)
    assert desk.watch.view.prefills == (prefill.url,)


async def test_the_load_back_collapse_reaches_the_metric_that_alerts() -> None:
    """Accept length as reported in sglang#32176, as an engine's own gauge tells it, to `worker_suspect`."""
    lengths = [4.487] * 40 + [1.589] * 12
    scripts = [
        [
            answer(
                f'sglang:spec_accept_length{{model_name="glm"}} {length}\n'
                f'sglang:realtime_tokens_total{{mode="decode"}} {1000 * (place + 1)}\n'.encode()
            )
        ]
        for place, length in enumerate(lengths)
    ]
    desk, metrics = new_desk(), Metrics()
    gauges = FleetGauges(desk.watch, metrics)
    async with ScriptedUpstream(*scripts) as worker, admin_client() as client:
        telemetry = Telemetry(TelemetrySettings(), desk, client, lambda: [worker.url])
        suspected = []
        for place in range(len(lengths)):
            telemetry.tick(place * LOOK_S)
            await telemetry.scraper.poll()
            gauges()
            labels = {"worker": worker.url, "reason": "acceptance"}
            value = metrics.registry.get_sample_value("specguard_worker_suspect", labels)
            suspected.append(value == 1)
    assert not any(suspected[:41])
    assert suspected.index(True) <= 40 + 8
