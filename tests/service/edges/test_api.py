"""The admin app: who may ask, what is answered, and how it fails."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import msgspec
import pytest
from structlog.testing import capture_logs

from service.config.settings import Retention
from service.core.cache_watch import SessionTurn
from service.core.events import Cached, Hint, WorkerFacts
from service.core.fleet_watch import LOOK_S, Gauge
from service.edges.admin import AdminServer, listener
from service.edges.api import Admin, create_app
from service.edges.case import Kept
from service.edges.health import Health
from service.edges.live import WATCHERS_MAX, LiveBoard, LiveStream
from service.edges.logs import KEYS
from service.edges.metrics import Metrics
from service.edges.records import Records
from service.edges.rows import Waiting
from service.edges.store import Store
from service.edges.writer import Writer
from tests.service.edges.kept import Counts, facts, incident

pytestmark = pytest.mark.anyio


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'specguard.db'}"
    counts = Counts()
    writer = Writer(url, counts, capture="hashes", salt=b"s", retention=Retention())
    store = Store(writer, counts, capture="hashes")
    store.start()
    made = Admin(Health(fails_closed=False), Metrics(), Records(url), store, LiveBoard())
    made.health.accepting = True
    await written(store)
    yield made
    await asyncio.to_thread(store.stop)
    await made.records.close()


def client(admin: Admin, base: str = "http://127.0.0.1:8401", **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(admin))
    return httpx.AsyncClient(transport=transport, base_url=base, headers=headers)


async def written(store: Store) -> None:
    """Until all that was kept before is in the database: orders come after it."""
    await asyncio.wrap_future(store.forget(case="nobody"))


async def filled(admin: Admin, *rids: str) -> None:
    for rid in rids:
        admin.store.keep(incident(rid), Kept(facts(), b"{}"))
    await written(admin.store)


async def test_health_and_readiness_are_open_and_follow_the_state(admin: Admin) -> None:
    guarded = replace(admin, admin_token="t", metrics_token="m")
    async with client(guarded, "http://somewhere.example") as http:
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/readyz")).json()["ready"] is True
        admin.health.accepting = False
        assert (await http.get("/readyz")).status_code == 503
        admin.health.beat(-1e9)
        assert (await http.get("/healthz")).status_code == 503


async def test_metrics_are_open_unless_they_have_a_token(admin: Admin) -> None:
    async with client(admin, "http://somewhere.example") as http:
        answer = await http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "specguard_streams_total" in answer.text
    async with client(replace(admin, metrics_token="m")) as http:
        assert (await http.get("/metrics")).status_code == 401
        assert (await http.get("/metrics", headers={"authorization": "Bearer m"})).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/incidents",
        "/api/incidents/x",
        "/api/cases",
        "/api/cases/x",
        "/api/streams",
        "/api/workers",
        "/api/changes",
        "/api/cache",
    ],
)
@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Basic right", "Bearer rightx", "Bearer ä"])
async def test_without_the_right_token_nothing_is_told(admin: Admin, path: str, given: str) -> None:
    headers = [(b"authorization", given.encode())] if given else []
    async with client(replace(admin, admin_token="right")) as http:
        answer = await http.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_with_the_right_token_any_host_is_answered(admin: Admin) -> None:
    async with client(replace(admin, admin_token="right"), "http://sidecar.example") as http:
        assert (await http.get("/api/cases", headers={"authorization": "bearer right"})).status_code == 200


@pytest.mark.parametrize(
    ("base", "status"),
    [
        ("http://evil.example", 403),
        ("http://127.0.0.1:1", 200),
        ("http://localhost", 200),
        ("http://[::1]:2", 200),
    ],
)
async def test_without_a_token_only_a_loopback_host_is_answered(admin: Admin, base: str, status: int) -> None:
    async with client(admin, base) as http:
        assert (await http.get("/api/cases")).status_code == status


@pytest.mark.parametrize("host", ["[::1", "::1]", "[127.0.0.1]", ""])
async def test_a_host_that_is_none_is_no_loopback(admin: Admin, host: str) -> None:
    async with client(admin) as http:
        assert (await http.get("/api/cases", headers={"host": host})).status_code == 403


async def test_incidents_page_and_filter(admin: Admin) -> None:
    await filled(admin, "a", "b", "c")
    async with client(admin) as http:
        first = (await http.get("/api/incidents", params={"limit": 2})).json()
        second = (
            await http.get("/api/incidents", params={"limit": 2, "before": first["next_before"]})
        ).json()
        assert [row["rid"] for page in (first, second) for row in page["incidents"]] == ["c", "b", "a"]
        assert second["next_before"] is None
        only = (await http.get("/api/incidents", params={"rid": "b", "kind": "repetition"})).json()
        assert [row["rid"] for row in only["incidents"]] == ["b"]
        own_id = only["incidents"][0]["id"]
        assert (await http.get(f"/api/incidents/{own_id}")).json()["attempts"][0]["worker"] == "http://w:1"


async def test_cases_page_by_a_mark_that_only_a_page_can_give(admin: Admin) -> None:
    await filled(admin, "a", "b", "c")
    async with client(admin) as http:
        rids: list[str] = []
        before: dict[str, str] = {}
        for _ in range(3):
            page = (await http.get("/api/cases", params={"limit": 1, **before})).json()
            rids += [row["rid"] for row in page["cases"]]
            before = {"before": page["next_before"]}
        assert sorted(rids) == ["a", "b", "c"]
        assert (await http.get("/api/cases", params={"limit": 1, **before})).json() == {
            "cases": [],
            "next_before": None,
        }
        assert (await http.get("/api/cases?before=x'--")).status_code == 400


async def test_a_case_is_given_as_it_was_written_and_deleted_by_id(admin: Admin) -> None:
    await filled(admin, "a")
    async with client(admin) as http:
        (case,) = (await http.get("/api/cases")).json()["cases"]
        assert (await http.get(f"/api/cases/{case['id']}")).json()["rid"] == "a"
        assert (await http.delete(f"/api/cases/{case['id']}")).json() == {"removed": 1}
        assert (await http.get(f"/api/cases/{case['id']}")).status_code == 404
        assert (await http.delete(f"/api/cases/{case['id']}")).status_code == 404
        (row,) = (await http.get("/api/incidents")).json()["incidents"]
        assert (await http.delete(f"/api/incidents/{row['id']}")).json() == {"removed": 1}
        assert (await http.get("/api/incidents")).json()["incidents"] == []


async def test_a_case_is_given_without_its_text_where_that_is_asked_for(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'full.db'}"
    writer = Writer(url, Counts(), capture="full", salt=b"s", retention=Retention())
    body = msgspec.json.encode({"messages": [{"role": "user", "content": "Jane Doe"}]})
    await writer.write([Waiting(1, incident("a"), Kept(facts(), body))])
    await writer.close()
    records = Records(url, b"s")
    made = Admin(Health(fails_closed=False), Metrics(), records, Store.__new__(Store), LiveBoard())
    async with client(made) as http:
        (row,) = (await http.get("/api/cases")).json()["cases"]
        assert "Jane" in (await http.get(f"/api/cases/{row['id']}")).text
        bare = await http.get(f"/api/cases/{row['id']}?text_free=true")
        assert "Jane" not in bare.text
        assert bare.json()["text_free_of"] == row["id"]
        assert (await http.get(f"/api/cases/{row['id']}?text_free=maybe")).status_code == 400
    await records.close()


async def test_a_deletion_leaves_a_line_that_says_what_and_who(admin: Admin) -> None:
    await filled(admin, "a", "b")
    async with client(admin) as http:
        with capture_logs() as lines:
            await asked_to_forget(http)
    assert [(line["event"], line["peer"]) for line in lines] == [
        ("case_deleted", "127.0.0.1"),
        ("incident_deleted", "127.0.0.1"),
    ]
    assert {len(line["id"]) for line in lines} == {64, 24}
    assert all(set(line) - {"log_level"} <= KEYS for line in lines)


async def asked_to_forget(http: httpx.AsyncClient) -> None:
    """One case, one incident, and what is not there."""
    (case, _) = (await http.get("/api/cases")).json()["cases"]
    (_, row) = (await http.get("/api/incidents")).json()["incidents"]
    await http.delete(f"/api/cases/{case['id']}")
    await http.delete(f"/api/incidents/{row['id']}")
    assert (await http.delete("/api/cases/Jane-Doe")).status_code == 404


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "knid=a", "since_ms=-1", "before=" + "x" * 300]
)
async def test_a_bad_question_is_told_what_was_expected(admin: Admin, query: str) -> None:
    async with client(admin) as http:
        answer = await http.get(f"/api/incidents?{query}")
    assert answer.status_code == 400
    assert "expected" in answer.text or "known are" in answer.text
    assert "x" * 300 not in answer.text


async def test_a_store_that_cannot_be_read_is_no_empty_list(admin: Admin, tmp_path: Path) -> None:
    away = replace(admin, records=Records(f"sqlite+aiosqlite:///{tmp_path / 'gone.db'}"))
    async with client(away) as http:
        answer = await http.get("/api/incidents")
    assert answer.status_code == 503
    assert answer.json() == {"detail": "the store cannot be read now"}


async def test_enough_watchers_are_enough(admin: Admin) -> None:
    for _ in range(WATCHERS_MAX):
        admin.board.enter()
    async with client(admin) as http:
        assert (await http.get("/api/streams")).status_code == 503


def test_live_streams_flow_while_somebody_watches_and_not_after() -> None:
    board = LiveBoard()
    seen = LiveStream("r1", "agents", "strict", "http://w:1", 2, 30, 2.5, "suspect", "garbled", 99, 1.0)
    idle = Store.__new__(Store)
    made = Admin(Health(fails_closed=False), Metrics(), Records("sqlite+aiosqlite:///x.db"), idle, board)
    with listener("127.0.0.1", 0) as bound:
        server = AdminServer(create_app(made), bound)
        server.start()
        with httpx.stream("GET", f"http://127.0.0.1:{server.port}/api/streams", trust_env=False) as answer:
            while not board._watchers:
                sleep(0.01)
            board.publish(5.0, 1, [lambda _: seen])
            first: dict[str, Any] = json.loads(next(answer.iter_lines()).removeprefix("data: "))
        server.stop()
    assert first["streams"] == [msgspec.to_builtins(seen)]
    assert datetime.fromisoformat(first["at"]).utcoffset() == timedelta(0)
    assert board._watchers == 0


async def test_workers_are_told_with_their_evidence_and_can_be_learned_anew(admin: Admin) -> None:
    for look in range(45):
        length = 4.487 if look < 35 else 1.589
        admin.watch.scraped(Gauge("http://d1", look * LOOK_S, "m", length, fresh=True, running=1.0))
        admin.watch.look(look * LOOK_S, [WorkerFacts("http://d1")], {})
    async with client(admin) as http:
        (told,) = (await http.get("/api/workers")).json()["workers"]
        assert (told["url"], told["suspect"]) == ("http://d1", ["acceptance"])
        assert told["acceptance"][0]["log10_e_own"] is None  # no peers: no number, and no NaN in JSON
        assert (await http.post("/api/workers/relearn", params={"worker": "nobody"})).status_code == 404
        assert (await http.post("/api/workers/relearn", params={"worker": "http://d1"})).status_code == 200
    admin.watch.look(60 * LOOK_S, [WorkerFacts("http://d1")], {})
    assert admin.watch.view.workers[0].suspect == ()


async def test_an_incident_is_told_with_its_hints(admin: Admin) -> None:
    hint = Hint("hicache_load_back", "likely", 6, ("from the host tier",), ("no cause",), "flush it")
    admin.store.keep(msgspec.structs.replace(incident("r1"), hints=(hint,)), Kept(facts(), b"{}"))
    await written(admin.store)
    async with client(admin) as http:
        (told,) = (await http.get("/api/incidents")).json()["incidents"]
        case = (await http.get(f"/api/cases/{told['case_id']}")).json()
    assert told["hints"] == case["hints"] == [json.loads(msgspec.json.encode(hint))]


async def test_a_change_can_be_told_and_is_kept_with_its_age(admin: Admin) -> None:
    async with client(admin) as http:
        posted = await http.post("/api/changes", params={"what": "image 0.5.24", "worker": "http://d1"})
        assert posted.status_code == 200
        (told,) = (await http.get("/api/changes")).json()["changes"]
        assert (told["what"], told["worker"], told["told"]) == ("image 0.5.24", "http://d1", True)
        assert 0 <= told["age_s"] < 60
        assert (await http.post("/api/changes", params={"what": ""})).status_code == 400
        assert (await http.post("/api/changes", params={"what": "x" * 1000})).status_code == 400


async def test_turns_that_missed_their_prefix_are_told_without_a_word_of_them(admin: Admin) -> None:
    prompt = " ".join(f"secret{number}" for number in range(3_000))
    for at in (1.0, 5.0):
        admin.cache.read(SessionTurn(prompt, "m", Cached(9_000, 0), at, "http://d1", "my-session"))
    async with client(admin) as http:
        answer = await http.get("/api/cache")
    assert "secret" not in answer.text
    assert "my-session" not in answer.text
    (finding,) = answer.json()["findings"]
    assert (finding["kind"], finding["age_s"], finding["cached_tokens"]) == ("zero_hit", 4.0, 0)
    assert answer.json()["counts"]["continued"] == 1
