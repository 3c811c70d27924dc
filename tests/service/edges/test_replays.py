"""What came of replaying a case is kept at the case, and counted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from replay.judging.verdict import Outcome
from service.config.settings import Retention
from service.edges.api import Admin, create_app
from service.edges.case import Kept
from service.edges.catalogue import REPLAY_VERDICTS
from service.edges.health import Health
from service.edges.live import LiveBoard
from service.edges.metrics import Metrics
from service.edges.records import Records
from service.edges.store import Store
from service.edges.writer import Writer
from tests.service.edges.kept import Counts, facts, incident

pytestmark = pytest.mark.anyio

TOLD = {
    "verdict": "LOAD-DEPENDENT",
    "reproduced": True,
    "p": 0.001,
    "low_per_10k": 0.0,
    "high_per_10k": 64.0,
    "requests": 8000,
    "seconds": 300.5,
    "plan_hash": "9f2c",
}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'specguard.db'}"
    writer = Writer(url, Counts(), capture="hashes", salt=b"s", retention=Retention())
    store = Store(writer, Counts(), capture="hashes")
    store.start()
    store.keep(incident("r-1"), Kept(facts(), b"{}"))
    await asyncio.wrap_future(store.forget(case="nobody"))
    made = Admin(Health(fails_closed=False), Metrics(), Records(url), store, LiveBoard())
    yield made
    await asyncio.to_thread(store.stop)
    await made.records.close()


@pytest.fixture
async def http(admin: Admin) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(admin))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8401") as client:
        yield client


async def the_case(http: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await http.get("/api/cases")).json()["cases"][0]
    return found


async def test_a_verdict_stands_at_its_case_newest_first(http: httpx.AsyncClient, admin: Admin) -> None:
    case = await the_case(http)
    assert case["replay"] is None
    for verdict in ("UNDECIDED", "LOAD-DEPENDENT"):
        answer = await http.post(f"/api/cases/{case['id']}/replays", json=TOLD | {"verdict": verdict})
        assert answer.status_code == 201
    found = (await http.get(f"/api/cases/{case['id']}/replays")).json()["replays"]
    assert [one["verdict"] for one in found] == ["LOAD-DEPENDENT", "UNDECIDED"]
    assert TOLD.items() <= found[0].items()
    assert (await the_case(http))["replay"] == "LOAD-DEPENDENT"
    counted = admin.metrics.exposition().decode()
    assert 'specguard_replays_total{verdict="UNDECIDED"} 1.0' in counted


async def test_a_case_that_is_gone_takes_its_replays_with_it(http: httpx.AsyncClient) -> None:
    own_id = (await the_case(http))["id"]
    await http.post(f"/api/cases/{own_id}/replays", json=TOLD)
    await http.delete(f"/api/cases/{own_id}")
    assert (await http.get(f"/api/cases/{own_id}/replays")).json() == {"replays": []}
    assert (await http.post(f"/api/cases/{own_id}/replays", json=TOLD)).status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"verdict": "FINE"},
        {"p": 2},
        {"requests": -1},
        {"text": "what the user wrote"},
        {"plan_hash": "../x"},
        {"high_per_10k": 20_000},
    ],
)
async def test_what_is_no_replay_is_refused_and_not_repeated(
    wrong: dict[str, Any], http: httpx.AsyncClient
) -> None:
    answer = await http.post(f"/api/cases/{(await the_case(http))['id']}/replays", json=TOLD | wrong)
    assert answer.status_code == 400
    assert "what the user wrote" not in answer.text


def test_the_service_and_the_judge_use_the_same_words() -> None:
    assert set(REPLAY_VERDICTS) == set(Outcome)
