"""What the store holds is read newest first, a page at a time, and never by making a file."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from service.config.settings import Retention
from service.core.events import Cached, Incident
from service.edges.case import Kept
from service.edges.database import file_of
from service.edges.records import Records, StoreAwayError, cursor_of
from service.edges.rid import kept_rid
from service.edges.rows import Waiting
from service.edges.writer import Writer
from tests.service.edges.kept import SUSPECT, Counts, facts, incident

pytestmark = pytest.mark.anyio

AT_MS = 1_764_000_000_000
JANE = kept_rid("Jane Doe", b"s")


def told(incident: Incident) -> Incident:
    """With all that a probe and an engine can tell of its first attempt."""
    first, *others = incident.attempts
    first = msgspec.structs.replace(
        first,
        prefill="http://p:1",
        dp_rank=2,
        telemetry="exact",
        engine_said=("nan",),
        cached=Cached(90, 64),
    )
    return msgspec.structs.replace(incident, attempts=(first, *others))


@pytest.fixture
async def records(tmp_path: Path) -> AsyncIterator[Records]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'specguard.db'}"
    writer = Writer(url, Counts(), capture="hashes", salt=b"s", retention=Retention())
    bad = [Waiting(AT_MS + n, told(incident(f"r{n}")), Kept(facts(), b"{}")) for n in range(5)]
    await writer.write([*bad, Waiting(AT_MS + 9, incident("Jane Doe", SUSPECT))])
    await writer.close()
    reader = Records(url, b"s")
    yield reader
    await reader.close()


async def test_incidents_come_newest_first_with_their_attempts(records: Records) -> None:
    found = await records.incidents({})
    assert [row["rid"] for row in found] == [JANE, "r4", "r3", "r2", "r1", "r0"]
    assert [one["rid"] for one in found[1]["attempts"]] == ["r4-a", "r4-b"]
    assert found[1]["attempts"][0]["findings"][0]["detector"] == "loop"
    assert found[0]["at"] == "2025-11-24T16:00:00.009+00:00"


async def test_an_attempt_says_what_probe_and_engine_told_of_it(records: Records) -> None:
    (attempt, _) = (await records.incidents({"rid": "r0"}))[0]["attempts"]
    assert (attempt["prefill"], attempt["dp_rank"]) == ("http://p:1", 2)
    assert (attempt["telemetry"], attempt["engine_said"]) == ("exact", ["nan"])
    assert attempt["cached"] == {"prompt_tokens": 90, "tokens": 64, "host": None, "storage": None}
    assert "told" not in attempt


async def test_pages_follow_each_other_without_gap_or_overlap(records: Records) -> None:
    pages, before = [], ""
    while page := await records.incidents({}, before=before, limit=4):
        pages.append([row["rid"] for row in page])
        before = page[-1]["id"]
    assert pages == [[JANE, "r4", "r3", "r2"], ["r1", "r0"]]


@pytest.mark.parametrize(
    ("wanted", "rids"),
    [
        ({"level": "suspect"}, [JANE]),
        ({"rid": "Jane Doe"}, [JANE]),
        ({"rid": JANE}, [JANE]),
        ({"rid": "r3-b"}, ["r3"]),
        ({"kind": "repetition", "rid": "r3"}, ["r3"]),
        ({"kind": "garbled"}, []),
        ({"kind": None, "rid": "r1"}, ["r1"]),
    ],
)
async def test_filters_narrow(records: Records, wanted: dict[str, str | None], rids: list[str]) -> None:
    assert [row["rid"] for row in await records.incidents(wanted)] == rids


async def test_a_time_narrows(records: Records) -> None:
    assert [row["rid"] for row in await records.incidents({}, since_ms=AT_MS + 4)] == [JANE, "r4"]


async def test_one_incident_is_found_by_its_id(records: Records) -> None:
    (row,) = await records.incidents({"rid": "r2"})
    assert await records.incident(row["id"]) == row
    assert await records.incident("nobody") is None


async def test_cases_come_without_their_bundles_and_bundles_by_id(records: Records) -> None:
    cases = await records.cases({}, limit=2)
    assert [case["rid"] for case in cases] == ["r4", "r3"]
    assert "bundle" not in cases[0]
    older = await records.cases({"kind": "repetition"}, before=cursor_of(cases[-1]))
    assert [case["rid"] for case in older] == ["r2", "r1", "r0"]
    bundle = await records.bundle(cases[0]["id"])
    assert bundle is not None
    assert msgspec.json.decode(bundle)["rid"] == "r4"
    assert await records.bundle("nobody") is None


async def test_a_case_is_found_by_the_id_of_any_of_its_attempts(records: Records) -> None:
    for rid in ("r2", "r2-a", "r2-b"):
        assert [case["rid"] for case in await records.cases({"rid": rid})] == ["r2"]
    assert await records.cases({"rid": "r2-c"}) == []


async def test_pages_of_cases_of_one_millisecond_neither_lose_nor_repeat_a_row(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'specguard.db'}"
    writer = Writer(url, Counts(), capture="hashes", salt=b"s", retention=Retention())
    await writer.write([Waiting(AT_MS + n // 4, incident(f"r{n}"), Kept(facts(), b"{}")) for n in range(9)])
    reader = Records(url)
    pages, before = [], ""
    while page := await reader.cases({}, before=before, limit=3):
        pages.append([row["rid"] for row in page])
        before = cursor_of(page[-1])
        if len(pages) == 1:  # what comes while somebody turns pages is newer than all of them
            await writer.write([Waiting(AT_MS + 99, incident("late"), Kept(facts(), b"{}"))])
    await writer.close()
    await reader.close()
    assert [len(page) for page in pages] == [3, 3, 3]
    assert sorted(rid for page in pages for rid in page) == [f"r{n}" for n in range(9)]


async def test_a_store_that_is_not_there_is_said_to_be_away(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'gone.db'}"
    reader = Records(url)
    with pytest.raises(StoreAwayError):
        await reader.incidents({})
    assert not file_of(url).exists()
    assert repr(reader) == "<Records closed>"
