"""What the doctor hears: of sound workers, of silent ones, and of those who talk nonsense."""

import json
from pathlib import Path

import pytest

from service.core.doctor.facts import Engine, Facts, RouterKind
from service.core.exposition import MAX_BYTES
from service.edges.doctor import Questions
from service.edges.router_admin import admin_client
from tests.fakes import Stop
from tests.paths import Answer, paths

FIXTURES = Path(__file__).parents[2] / "fixtures" / "telemetry"
INFO = (FIXTURES / "sgl-server_info.json").read_bytes()
METRICS = (FIXTURES / "sgl-ngram-metrics.txt").read_bytes()
SOUND: dict[str, Answer] = {"/server_info": (200, INFO), "/metrics": (200, METRICS)}


async def asked(answers: dict[str, Answer], date: str | None = None, key: str = "") -> Facts:
    """One worker that answers so."""
    async with paths(answers, date) as worker, admin_client() as client:
        return await Questions(client, api_key=key).ask(workers=[worker.url + "/"])


def listing(*workers: dict[str, object]) -> Answer:
    return 200, json.dumps({"workers": workers}).encode()


async def test_a_worker_is_heard_by_its_own_words_and_its_metrics() -> None:
    (worker,) = (await asked(SOUND)).workers
    assert (worker.trouble, worker.unreadable, worker.engine) == ("", "", Engine.SGLANG)
    assert worker.info is not None
    assert worker.info.version == worker.version == "0.5.23"
    assert worker.metrics is not None
    assert worker.metrics.speculates
    assert abs(worker.skew_s) <= worker.skew_error_s


async def test_router_metrics_that_do_not_answer_are_told() -> None:
    routing = {"/workers": listing(), "/metrics": (404, b"")}
    async with paths(routing) as router, admin_client() as client:
        seen = await Questions(client).ask(router.url, router_metrics=f"{router.url}/metrics")
    assert (seen.router.metrics_url, seen.router.metrics_trouble) == (f"{router.url}/metrics", "HTTP 404")


async def test_a_clock_that_is_off_is_measured() -> None:
    (worker,) = (await asked(SOUND, "Sun, 01 Jan 2040 00:00:00 GMT")).workers
    assert worker.skew_s > 3600


@pytest.mark.parametrize("date", ["", "yesterday", "Sun, 01 Jan 2040 00:00:00"])
async def test_a_date_that_is_none_tells_no_skew(date: str) -> None:
    (worker,) = (await asked(SOUND, date)).workers
    assert not abs(worker.skew_s) >= 0


async def test_vllm_is_known_by_its_version_and_its_metrics() -> None:
    metrics = (FIXTURES / "vllm-ngram-metrics.txt").read_bytes()
    (worker,) = (
        await asked({"/version": (200, b'{"version": "0.32.0"}'), "/metrics": (200, metrics)})
    ).workers
    assert (worker.engine, worker.version, worker.info) == (Engine.VLLM, "0.32.0", None)


@pytest.mark.parametrize(
    ("answers", "trouble"),
    [
        ({"/server_info": Stop.RESET}, "Error"),
        ({"/server_info": (401, b"{}")}, "HTTP 401"),
    ],
)
async def test_a_worker_that_cannot_be_asked_says_why(answers: dict[str, Answer], trouble: str) -> None:
    (worker,) = (await asked(answers)).workers
    assert trouble in worker.trouble


async def test_nobody_there_is_a_fact() -> None:
    async with admin_client() as client:
        facts = await Questions(client).ask("http://127.0.0.1:1", ["http://127.0.0.1:2", "no url"])
    assert facts.router.trouble == "no connection"
    assert all(worker.trouble for worker in facts.workers)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff\xfe", b'{"stream_interval": "x"}', b"x" * (MAX_BYTES + 1)]
)
async def test_an_answer_that_is_nonsense_is_a_fact(body: bytes) -> None:
    (worker,) = (await asked({"/server_info": (200, body), "/metrics": (200, body)})).workers
    assert worker.unreadable
    assert worker.trouble == ""


async def test_the_key_goes_to_workers_alone() -> None:
    async with paths({}) as router, paths(SOUND) as worker, admin_client() as client:
        await Questions(client, api_key="k-1").ask(router.url, [worker.url])
    assert b"Bearer k-1" in worker.asked["/server_info"]
    assert all(b"k-1" not in head for head in router.asked.values())


async def test_workers_that_the_router_lists_are_asked_once() -> None:
    async with paths(SOUND) as worker, admin_client() as client:
        entries: list[dict[str, object]] = [
            {"url": worker.url, "worker_type": "decode", "is_healthy": True, "status": "ready"},
            {"url": worker.url + "@1", "worker_type": "decode"},
            {"url": "grpc://10.0.0.1:5", "connection_mode": "grpc"},
        ]
        told = {"/workers": listing(*entries), "/readiness": (503, b"{}")}
        async with paths(told) as router:
            facts = await Questions(client).ask(router.url, [worker.url])
    assert [one.url for one in facts.workers] == [worker.url]
    assert (facts.router.kind, facts.router.ready, len(facts.router.workers)) == (RouterKind.SMG, False, 3)


async def test_the_routers_metrics_tell_its_policy() -> None:
    counted = b'smg_worker_selection_total{worker_type="decode",policy="cache_aware"} 3\n'
    async with paths({"/workers": listing(), "/m": (200, counted)}) as router, admin_client() as client:
        facts = await Questions(client).ask(router.url, router_metrics=router.url + "/m")
    assert facts.router.policy == "cache_aware"


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"workers": 5}'])
async def test_a_list_that_is_none_leaves_the_router_unknown(body: bytes) -> None:
    async with paths({"/workers": (200, body)}) as router, admin_client() as client:
        facts = await Questions(client).ask(router.url)
    assert (facts.router.kind, facts.router.trouble) == (RouterKind.OTHER, "")
