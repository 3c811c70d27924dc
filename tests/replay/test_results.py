"""A results file: what is in it stays, whoever is killed and however full the disk is."""

import errno
import os
from pathlib import Path

import pytest

from replay.results import (
    CUT_OFF,
    Closing,
    Journal,
    Metric,
    Result,
    ResultsError,
    Resumed,
    RunHeader,
    Sent,
    Sync,
    closing_of,
    look_back,
    read,
    read_results,
    results_of,
)

HEADER = RunHeader(plan_hash="abc", target="http://127.0.0.1:1", started_at="2026-01-01T00:00:00Z")
SMALL = 4096
"""Of the reserve."""


def result(name: str, text: str = "") -> Result:
    return Result(id=name, scheduled_s=1.0, sent_s=1.5, ended_s=2.0, ending="complete", status=200, text=text)


def journal(path: Path, sync: Sync = Sync.NEVER) -> Journal:
    return Journal(path, sync, reserve_bytes=SMALL)


class SmallDisk:
    """Takes so many bytes, then says it is full; what the reserve held comes free when it is given back."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.journal: Journal | None = None

    def __call__(self, file: int, data: bytes) -> int:
        if self.journal is not None and self.journal.full:
            self.room += SMALL
            self.journal = None
        if not self.room:
            raise OSError(errno.ENOSPC, "no space")
        written = os.write(file, data[: self.room])
        self.room -= written
        return written


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    lines = (
        Sent(id="a", at_s=1.0, arm="idle", block=3),
        result("a", "καλά, 好"),
        Metric(at_s=2.0, url="http://p/metrics", values={"token_usage": 0.5}),
    )
    with journal(path) as file:
        file.begin(HEADER)
        file.add(*lines)
    assert list(read(path)) == [HEADER, *lines]
    assert list(results_of(path)) == [lines[1]]


def test_a_torn_last_line_is_dropped_and_what_was_under_way_is_told_as_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with journal(path) as file:
        file.begin(HEADER)
        file.add(Sent(id="a", at_s=1.0), result("a"), Sent(id="b", at_s=1.7, arm="x4", block=2))
    with path.open("ab") as torn:
        torn.write(b'{"kind":"result","id":"b","sched')
    past = look_back(path)
    assert past is not None
    assert past.done == {"a"}
    assert [sent.id for sent in past.cut_off] == ["b"]
    with journal(path) as file:
        file.resume(past)
        file.add(Sent(id="c", at_s=3.0), result("c"))
    found = {one.id: one for one in results_of(path)}
    assert set(found) == {"a", "b", "c"}
    assert (found["b"].ending, found["b"].error, found["b"].arm) == ("aborted", CUT_OFF, "x4")


def test_a_run_killed_over_its_first_line_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"kind":"run","pl')
    assert look_back(path) is None
    with journal(path) as file:
        file.begin(HEADER)
    assert list(read(path)) == [HEADER]


def test_a_file_that_holds_a_run_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with journal(path) as file:
        file.begin(HEADER)
    with journal(path) as file, pytest.raises(ResultsError, match="already holds a run"):
        file.begin(HEADER)
    assert list(read(path)) == [HEADER]


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with journal(path) as file:
        file.begin(HEADER)
        with pytest.raises(ResultsError, match="another run"), journal(path):
            pass


def test_a_full_disk_leaves_room_for_what_is_under_way_and_no_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    disk = SmallDisk(1500)
    with Journal(path, Sync.NEVER, write=disk, reserve_bytes=SMALL) as file:
        disk.journal = file
        file.begin(HEADER)
        under_way = 0
        while not file.full:
            file.add(Sent(id=f"{under_way}", at_s=1.0))
            under_way += 1
        for number in range(under_way):
            file.add(result(f"{number}"))
        with pytest.raises(ResultsError, match="No space left"):
            file.add(result("more", "x" * 10_000))
    past = look_back(path)
    assert past is not None
    assert len(past.done) == under_way
    assert past.cut_off == ()


def test_no_room_at_the_start_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    huge = Journal(tmp_path / "run.jsonl", reserve_bytes=1 << 60)
    with pytest.raises(ResultsError), huge:
        pass
    assert not list(tmp_path.glob(".*reserve"))


def test_the_reserve_is_held_without_a_name_and_goes_with_the_run(tmp_path: Path) -> None:
    with journal(tmp_path / "run.jsonl", Sync.EACH) as file:
        file.begin(HEADER)
        assert os.fstat(file._reserve).st_blocks * 512 >= SMALL
        assert not list(tmp_path.glob(".*reserve"))
    assert file._reserve == -1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"format":"specguard.trace/1"}\n', "line 1"),
        (b'{"kind":"sent","id":"a","at_s":1}\n', "no results file"),
        (
            b'{"kind":"run","plan_hash":"","target":"","started_at":""}\n{"kind":"sent","id":3}\n',
            "line 2",
        ),
        (b'{"kind":"run","plan_hash":"","target":"","started_at":"","format":"v9"}\n', "no results file"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(ResultsError, match=told):
        list(read(path))


def test_a_result_shows_no_text() -> None:
    assert "secret" not in repr(result("a", "secret"))


def test_how_a_run_ended_is_its_last_word(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    first = Closing(kept=True, late_p99_ms=1.0, late_limit_ms=5.0, stopped="interrupted")
    last = Closing(kept=False, late_p99_ms=9.0, late_limit_ms=5.0)
    with journal(path) as file:
        file.begin(HEADER)
        file.add(first, Resumed(at="2026-01-01T00:00:01Z", shift_s=1.0))
    assert closing_of(path) is None
    with journal(path) as file:
        file.add(result("a"), last)
    assert closing_of(path) == last
    header, found = read_results(path)
    assert (header, list(found)) == (HEADER, [result("a")])


def test_an_empty_file_holds_no_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.touch()
    with pytest.raises(ResultsError, match="empty"):
        read_results(path)
