"""The store takes incidents without ever holding up the stream path."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.config.settings import Capture, Retention
from service.edges.case import Kept
from service.edges.store import QUEUE_BYTES_MAX, QUEUE_MAX, Store, new_salt, now_ms
from service.edges.writer import Writer
from tests.service.edges.kept import Counts, facts, incident


@pytest.fixture
def counts() -> Counts:
    return Counts()


def store_at(path: Path, counts: Counts, capture: Capture = "hashes") -> Store:
    url = f"sqlite+aiosqlite:///{path}"
    writer = Writer(url, counts, capture=capture, salt=b"s", retention=Retention())
    return Store(writer, counts, capture=capture)


@pytest.fixture
def store(tmp_path: Path, counts: Counts) -> Iterator[Store]:
    made = store_at(tmp_path / "specguard.db", counts)
    made.start()
    yield made
    made.stop()


def rids(path: Path) -> list[str]:
    with sqlite3.connect(path / "specguard.db") as connection:
        found = [row[0] for row in connection.execute("SELECT rid FROM incidents ORDER BY rid")]
    connection.close()
    return found


def test_what_was_kept_before_stop_is_written(tmp_path: Path, counts: Counts, store: Store) -> None:
    for number in range(600):
        store.keep(incident(f"r{number:03}"), Kept(facts(), b"{}"))
    store.stop()
    assert rids(tmp_path) == [f"r{number:03}" for number in range(600)]
    assert counts.counted["cases", "saved"] == counts.counted["incidents", "corrupt"] == 600
    assert len(store) == 0


def test_a_full_queue_drops_and_counts(tmp_path: Path, counts: Counts) -> None:
    store = store_at(tmp_path / "x.db", counts)  # never started: nobody takes
    for _ in range(QUEUE_MAX + 7):
        store.keep(incident())
    assert len(store) == QUEUE_MAX
    assert counts.counted["cases_dropped",] == 7
    assert repr(store) == f"<Store {QUEUE_MAX} waiting, capture=hashes>"


def test_bodies_are_bounded_in_all_and_the_incident_is_kept_without(tmp_path: Path, counts: Counts) -> None:
    store = store_at(tmp_path / "x.db", counts)
    body = bytes(QUEUE_BYTES_MAX // 4 + 1)
    for _ in range(5):
        store.keep(incident(), Kept(facts(), body))
    assert len(store) == 5
    assert counts.counted["cases", "dropped"] == 2


def test_with_capture_off_no_text_even_waits(tmp_path: Path, counts: Counts) -> None:
    store = store_at(tmp_path / "x.db", counts, capture="off")
    store.keep(incident(), Kept(facts(prompt="Jane Doe"), b"Jane Doe"))
    waiting = store._queue[0].kept
    assert waiting is not None
    assert waiting.body == b""
    assert waiting.facts.prompt == ""


def test_a_database_that_cannot_be_opened_never_holds_up_keep_or_stop(tmp_path: Path, counts: Counts) -> None:
    (tmp_path / "folder").write_text("a file where the folder should be")
    store = store_at(tmp_path / "folder" / "x.db", counts)
    store.start()
    started = time.perf_counter()
    for _ in range(300):
        store.keep(incident())
    assert time.perf_counter() - started < 20  # one wait for the writer's next try, at each, would be 300 s
    store.stop(3.0)
    assert not store._thread.is_alive()
    assert counts.counted["store_errors",] >= 1
    assert counts.counted["cases_dropped",] == 300


def test_forgetting_goes_through_the_writer(tmp_path: Path, store: Store) -> None:
    store.keep(incident("a"), Kept(facts(), b"{}"))
    assert store.forget(incident="no such id").result(5) == 0
    store.stop()
    assert rids(tmp_path) == ["a"]


def test_stopping_twice_or_before_the_start_is_harmless(tmp_path: Path, counts: Counts) -> None:
    store = store_at(tmp_path / "x.db", counts)
    store.stop()
    store.start()
    store.stop()
    store.stop()
    assert not store._thread.is_alive()


def test_the_clock_counts_milliseconds_since_the_epoch() -> None:
    assert 1_700_000_000_000 < now_ms() < 4_000_000_000_000


def test_a_salt_is_the_owners_or_new_each_time() -> None:
    assert new_salt("mine") == b"mine"
    assert new_salt(None) != new_salt(None)
