"""The writer bears a locked, missing or broken database, and never stands in its own way."""

import asyncio
import sqlite3
from pathlib import Path

import msgspec
import pytest

from service.config.settings import Retention
from service.edges.case import Kept
from service.edges.rows import Waiting
from service.edges.writer import DAY_MS, TIDY_EVERY_MS, Order, Writer
from tests.service.edges.kept import Counts, facts, incident
from tests.waiting import until

pytestmark = pytest.mark.anyio

KEPT = Kept(facts(), b"{}")
NOW_MS = 1_764_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "specguard.db"


def writer_at(path: Path, counts: Counts | None = None, **retention: int) -> Writer:
    kept = Retention(**retention)
    return Writer(
        f"sqlite+aiosqlite:///{path}", counts or Counts(), capture="hashes", salt=b"s", retention=kept
    )


def batch(*rids: str, at_ms: int = NOW_MS) -> list[Waiting]:
    return [Waiting(at_ms, incident(rid), KEPT) for rid in rids]


def spoil(path: Path) -> None:
    path.write_bytes(b"this is no database, and long enough to be read as one" * 100)


def remove(path: Path) -> None:
    for gone in path.parent.glob(f"{path.name}*"):
        gone.unlink()


def held(path: Path, table: str = "incidents") -> list[str]:
    with sqlite3.connect(path) as connection:
        rows = [row[0] for row in connection.execute(f"SELECT rid FROM {table} ORDER BY at_ms, rid")]  # noqa: S608
    connection.close()
    return rows


async def test_a_batch_is_in_the_database(path: Path) -> None:
    counts = Counts()
    writer = writer_at(path, counts)
    await writer.write(batch("a", "b"))
    await writer.close()
    assert held(path) == held(path, "cases") == ["a", "b"]
    assert counts.counted["cases", "saved"] == 2


async def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "specguard.db"
    writer = writer_at(path)
    await writer.write(batch("a"))
    await writer.close()
    assert held(path) == ["a"]


async def test_a_locked_database_is_waited_for(path: Path) -> None:
    counts = Counts()
    writer = writer_at(path, counts)
    await writer.write(batch("a"))
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.write(batch("b")))
        await until(lambda: counts.counted["store_errors",])
        other.rollback()
        other.close()
    await writer.close()
    assert held(path) == ["a", "b"]


async def test_a_file_that_goes_away_is_made_anew(path: Path) -> None:
    writer = writer_at(path)
    await writer.write(batch("a"))
    remove(path)
    await writer.write(batch("b"))
    await writer.close()
    assert held(path) == ["b"]


async def test_a_broken_file_is_tried_again_until_it_is_mended(path: Path) -> None:
    counts = Counts()
    spoil(path)
    writer = writer_at(path, counts)
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.write(batch("a")))
        await until(lambda: counts.counted["store_errors",])
        remove(path)
    await writer.close()
    assert held(path) == ["a"]


async def test_a_stopping_writer_tries_once_and_drops(path: Path) -> None:
    counts = Counts()
    spoil(path)
    writer = writer_at(path, counts)
    writer.stop()
    await writer.write(batch("a", "b"))
    assert counts.counted["cases_dropped",] == 2


async def test_a_row_no_database_would_take_does_not_stand_in_the_way(path: Path) -> None:
    counts = Counts()
    writer = writer_at(path, counts)
    far = msgspec.structs.replace(incident("far"), delivered_bad_tokens=1 << 70)
    await writer.write([Waiting(NOW_MS, far, KEPT)])
    await writer.write(batch("near"))
    await writer.close()
    assert held(path) == ["near"]
    assert counts.counted["cases", "failed"] == 1


async def test_what_is_asked_to_be_forgotten_is_gone(path: Path) -> None:
    writer = writer_at(path)
    await writer.write(batch("a", "b"))
    with sqlite3.connect(path) as connection:
        incident_id, case_id = connection.execute(
            "SELECT id, case_id FROM incidents WHERE rid='a'"
        ).fetchone()
    connection.close()
    orders = [Order(incident=incident_id), Order(case=case_id), Order(case="no such")]
    for order in orders:
        await writer.obey(order)
    await writer.close()
    assert [order.done.result() for order in orders] == [1, 1, 0]
    assert held(path) == held(path, "cases") == ["b"]
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM attempts").fetchone() == (2,)
    connection.close()


async def test_an_order_learns_that_the_database_refused(path: Path) -> None:
    spoil(path)
    writer = writer_at(path)
    order = Order(case="x")
    await writer.obey(order)
    await writer.close()
    assert order.done.exception() is not None
    assert repr(order) == "<Order forget x done=True>"


async def test_what_is_too_old_goes(path: Path) -> None:
    writer = writer_at(path, days=2)
    await writer.write([*batch("old", at_ms=NOW_MS - 3 * DAY_MS), *batch("new", at_ms=NOW_MS - DAY_MS)])
    await writer.tidy(NOW_MS)
    await writer.close()
    assert held(path) == held(path, "cases") == ["new"]


async def test_what_is_too_much_goes_the_oldest_first(path: Path) -> None:
    writer = writer_at(path, incidents=2, cases=1)
    for number in range(4):
        await writer.write(batch(f"r{number}", at_ms=NOW_MS + number))
    await writer.tidy(NOW_MS)
    await writer.close()
    assert held(path) == ["r2", "r3"]
    assert held(path, "cases") == ["r3"]


async def test_tidying_is_done_now_and_then(path: Path) -> None:
    writer = writer_at(path, incidents=1)
    await writer.write(batch("a"))
    await writer.tidy(NOW_MS)
    await writer.write(batch("b", at_ms=NOW_MS + 1))
    await writer.tidy(NOW_MS + 1)
    assert held(path) == ["a", "b"]
    await writer.tidy(NOW_MS + TIDY_EVERY_MS)
    await writer.close()
    assert held(path) == ["b"]


async def test_a_broken_body_costs_its_case_and_nothing_else(path: Path) -> None:
    counts = Counts()
    writer = writer_at(path, counts)
    await writer.write([Waiting(NOW_MS, incident("a"), Kept(facts(), b"[" * 100_000))])
    await writer.close()
    assert held(path) == ["a"]
    assert repr(writer) == "<Writer closed>"
