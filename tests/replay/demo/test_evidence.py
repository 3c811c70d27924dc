"""What is read from the sidecar's admin port."""

import json

from replay.demo.evidence import collect, made_so_far, read
from tests.fakes import Script, ScriptedUpstream, answer


def row(rid: str, ordinal: int, level: str = "clean") -> dict[str, object]:
    return {
        "rid": rid,
        "ordinal": ordinal,
        "level": level,
        "kind": "silent",
        "detector": "silence",
        "log10_e": 6.0,
        "accept_length": None,
        "tokens": 40,
    }


def incident(rid: str, *rows: dict[str, object]) -> dict[str, object]:
    return {"id": f"id-{rid}", "rid": rid, "outcome": "recovered", "attempts": list(rows)}


def said(value: object) -> Script:
    return [answer(json.dumps(value).encode(), kind=b"application/json")]


def counted(value: int) -> Script:
    text = f'specguard_incidents_total{{level="corrupt"}} {value}.0\nspecguard_incidents_created 1.0\n'
    return [answer(text.encode(), kind=b"text/plain")]


def page(*incidents: dict[str, object], next_before: str | None = None) -> Script:
    return said({"incidents": incidents, "next_before": next_before})


def cases(*ids: str) -> Script:
    return said({"cases": [{"id": own_id} for own_id in ids], "next_before": None})


ONE = incident("a", row("a", 1, "corrupt"), row("b", 2))
TWO = incident("c", row("c", 1, "suspect"))


def test_a_suspect_that_was_followed_is_a_second_opinion() -> None:
    attempts = read(incident("a", row("b", 2), row("a", 1, "suspect"))).attempts
    assert [one.rid for one in attempts] == ["a", "b"]
    assert [one.second_opinion for one in attempts] == [True, False]


def test_a_suspect_that_was_left_alone_is_none() -> None:
    (attempt,) = read(TWO).attempts
    assert not attempt.second_opinion
    assert not attempt.verdict


def test_a_verdict_is_a_corrupt_attempt() -> None:
    assert [one.verdict for one in read(ONE).attempts] == [True, False]


def test_the_sidecars_own_count_adds_up_its_levels() -> None:
    text = """# HELP specguard_incidents_total Incidents handed to the store.
specguard_incidents_total{level="corrupt"} 12.0
specguard_incidents_total{level="suspect"} 3.0
specguard_incidents_dropped_total 4.0
"""
    assert made_so_far(text) == 15


async def test_every_page_and_every_incident_is_read() -> None:
    pages = [counted(2), page(TWO, next_before="id-c"), page(ONE), cases("x", "y")]
    async with ScriptedUpstream(*pages) as admin:
        evidence = await collect(admin.url)
        lines = [request.split(b" ")[1] for request in admin.requests]
    assert set(evidence.seen) == {"a", "c"}
    assert evidence.cases == 2
    assert b"before=id-c" in lines[2]


async def test_the_reader_waits_for_the_writer() -> None:
    pages = [counted(1), page(), counted(1), page(ONE), cases()]
    async with ScriptedUpstream(*pages) as admin:
        assert set((await collect(admin.url)).seen) == {"a"}


async def test_a_store_that_lost_something_is_read_as_it_is() -> None:
    async with ScriptedUpstream(counted(9), page(ONE), cases()) as admin:
        assert set((await collect(admin.url, stored_s=0)).seen) == {"a"}
