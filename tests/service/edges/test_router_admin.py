"""What the router and its workers say of themselves, and what follows where they say nothing."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.core.events import UNKNOWN, Drafter
from service.core.fleet import Fleet
from service.edges.pins import PinBook
from service.edges.router_admin import RouterAdmin, admin_client
from tests.fakes import Script, ScriptedUpstream, answer


def told(value: object) -> Script:
    return [answer(json.dumps(value).encode(), kind=b"application/json")]


def counted(*policies: str) -> Script:
    lines = [f'smg_worker_selection_total{{policy="{one}",worker_type="regular"}} 4\n' for one in policies]
    return [answer("".join(lines).encode(), kind=b"text/plain")]


def listed(*workers: tuple[str, str]) -> Script:
    entries = [
        {"id": f"id-{url}", "url": url, "worker_type": kind, "is_healthy": True, "load": 0}
        for url, kind in workers
    ]
    return told({"workers": entries, "total": len(entries), "stats": {"decode_count": 1}})


@asynccontextmanager
async def asking(
    router: ScriptedUpstream, hinted: tuple[str, ...] = ()
) -> AsyncIterator[tuple[RouterAdmin, Fleet, PinBook]]:
    fleet, pins = Fleet(), PinBook()
    async with admin_client() as client:
        yield RouterAdmin(router.url, fleet, pins, hinted=hinted, client=client), fleet, pins


@pytest.mark.parametrize(
    ("info", "drafter", "draft_tokens"),
    [
        (
            {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3, "speculative_num_draft_tokens": 4},
            Drafter.MODEL,
            3,
        ),
        (
            {
                "speculative_algorithm": "EAGLE3",
                "speculative_num_steps": 5,
                "speculative_num_draft_tokens": 16,
            },
            Drafter.MODEL,
            5,
        ),
        ({"speculative_algorithm": "nextn", "speculative_num_draft_tokens": 2}, Drafter.MODEL, 1),
        ({"speculative_algorithm": "STANDALONE", "speculative_num_steps": 2}, Drafter.MODEL, 2),
        ({"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 12}, Drafter.NGRAM, 11),
        ({"speculative_algorithm": None, "speculative_num_steps": None}, Drafter.NONE, UNKNOWN),
        ({}, Drafter.NONE, UNKNOWN),
        ({"speculative_algorithm": "ORACLE"}, Drafter.UNKNOWN, UNKNOWN),
    ],
)
async def test_a_worker_is_known_by_its_server_info(
    info: dict[str, object], drafter: Drafter, draft_tokens: int
) -> None:
    async with (
        ScriptedUpstream(told(info | {"model_path": "m"})) as worker,
        ScriptedUpstream(listed((worker.url, "decode"))) as router,
        asking(router) as (admin, fleet, _),
    ):
        await admin.poll()
        assert admin.reachable
        facts = fleet.worker(worker.url)
        assert (facts.drafter, facts.draft_tokens) == (drafter, draft_tokens)


async def test_what_a_worker_says_of_itself_is_at_hand_until_it_leaves() -> None:
    info = {"version": "0.5.23", "model_path": "m", "speculative_algorithm": None, "api_key": "SECRET"}
    async with (
        ScriptedUpstream(told(info)) as worker,
        ScriptedUpstream(listed((worker.url, "decode")), listed()) as router,
        asking(router, hinted=(worker.url,)) as (admin, _, _),
    ):
        await admin.poll()
        assert admin.engines[worker.url].version == "0.5.23"
        assert "SECRET" not in repr(admin.engines)
        await admin.poll()
        assert admin.engines == {}


async def test_the_routers_policy_is_known_once_its_metrics_told_it_and_stands_while_they_are_silent() -> (
    None
):
    silent: Script = [b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"]
    async with (
        ScriptedUpstream(listed()) as router,
        ScriptedUpstream(counted(), counted("round_robin"), silent, counted("random")) as metrics,
        admin_client() as client,
    ):
        admin = RouterAdmin(router.url, Fleet(), PinBook(), metrics=f"{metrics.url}/metrics", client=client)
        policies = []
        for _ in range(4):
            await admin.poll()
            policies.append(admin.policy)
        assert policies == ["", "round_robin", "round_robin", "random"]


async def test_a_worker_under_a_url_that_is_none_stays_unknown_and_stops_nothing() -> None:
    async with ScriptedUpstream(told({"speculative_algorithm": "NGRAM"})) as worker:
        entries = (("http://[::bad", "decode"), (worker.url, "decode"), ("grpc://10.0.0.1:1", "decode"))
        async with ScriptedUpstream(listed(*entries)) as router, asking(router) as (admin, fleet, _):
            await admin.poll()
            assert fleet.worker(worker.url).drafter is Drafter.NGRAM


async def test_only_decode_workers_can_be_pinned() -> None:
    async with ScriptedUpstream(told({})) as worker:
        entries = ((worker.url, "decode"), (worker.url + "/b", "decode"), (worker.url + "/p", "prefill"))
        async with ScriptedUpstream(listed(*entries)) as router, asking(router) as (admin, _, pins):
            await admin.poll()
            assert repr(pins) == "<PinBook 0 models over 2 workers>"


async def test_a_worker_that_left_is_forgotten() -> None:
    async with ScriptedUpstream(told({"speculative_algorithm": "NGRAM"})) as worker:
        router_says = [listed((worker.url, "regular")), listed()]
        async with ScriptedUpstream(*router_says) as router, asking(router) as (admin, fleet, _):
            await admin.poll()
            assert fleet.urls() == (worker.url,)
            await admin.poll()
            assert fleet.urls() == ()


async def test_the_owners_word_on_a_worker_stands() -> None:
    async with (
        ScriptedUpstream(told({"speculative_algorithm": "NGRAM"})) as worker,
        ScriptedUpstream(listed((worker.url, "regular"))) as router,
        asking(router, hinted=(worker.url,)) as (admin, fleet, _),
    ):
        fleet.know(worker.url, Drafter.MODEL, 3)
        await admin.poll()
        assert fleet.worker(worker.url).drafter is Drafter.MODEL


@pytest.mark.parametrize(
    "script",
    [
        [b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"],
        told({"detail": "something else"}),
        [answer(b"<html>", kind=b"text/html")],
        [b"garbage\r\n\r\n"],
    ],
    ids=["no such path", "another shape", "no JSON", "no HTTP"],
)
async def test_a_router_of_another_kind_leaves_workers_unknown_and_pins_off(script: Script) -> None:
    async with ScriptedUpstream(script) as router, asking(router) as (admin, fleet, pins):
        await admin.poll()
        assert not admin.reachable
        assert fleet.urls() == ()
        assert pins.choose("model", frozenset({"http://w"})) is None


async def test_a_router_that_is_down_is_asked_again() -> None:
    async with ScriptedUpstream(listed()) as router, asking(router) as (admin, _, _pins):
        await router.stop()
        await admin.poll()
        assert not admin.reachable
        async with router:
            await admin.poll()
            assert admin.reachable


async def test_a_worker_that_only_the_router_can_reach_stays_unknown() -> None:
    async with (
        ScriptedUpstream(listed(("http://127.0.0.1:1", "decode"))) as router,
        asking(router) as (admin, fleet, _),
    ):
        await admin.poll()
        assert admin.reachable
        assert fleet.worker("http://127.0.0.1:1").drafter is Drafter.UNKNOWN
