"""Log files are followed through everything that happens to log files."""

import asyncio
from pathlib import Path

import pytest

from service.core.loglines import MAX_LINE, LogEvent, LogKind
from service.edges.collectors import logtail
from service.edges.collectors.logtail import BEHIND_BYTES, LogTail

LINE = "[t] avg_spec_accept_length={}\n"


class Heard:
    def __init__(self) -> None:
        self.events: list[tuple[str, LogEvent]] = []

    def __call__(self, name: str, event: LogEvent) -> None:
        self.events.append((name, event))

    def lengths(self) -> list[float]:
        return [event.numbers["accept_len"] for _, event in self.events]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


def write(path: Path, *numbers: float, end: str = "") -> None:
    with path.open("a") as file:
        file.write("".join(LINE.format(number) for number in numbers) + end)


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def move_away(path: Path) -> None:
    path.rename(path.with_suffix(".1"))


def remove(path: Path) -> None:
    path.unlink()


async def test_only_new_lines_are_told(path: Path, heard: Heard) -> None:
    write(path, 1.0)
    tail = LogTail([path], heard)
    await tail.poll()
    write(path, 2.0, 3.0)
    await tail.poll()
    await tail.poll()
    tail.close()
    assert heard.lengths() == [2.0, 3.0]
    assert heard.events[0][0] == "worker.log"
    assert repr(tail) == "<LogTail 1 files, 2 events>"


async def test_a_line_is_told_when_it_is_whole(path: Path, heard: Heard) -> None:
    tail = LogTail([path], heard)
    await tail.poll()  # not there yet
    write(path, 1.0, end="[t] avg_spec_accept_len")
    await tail.poll()
    assert heard.lengths() == [1.0]
    write(path, end="gth=2.5\n")
    await tail.poll()
    tail.close()
    assert heard.lengths() == [1.0, 2.5]


async def test_a_file_moved_away_is_read_to_its_end_first(path: Path, heard: Heard) -> None:
    tail = LogTail([path], heard, from_start=True)
    write(path, 1.0)
    await tail.poll()
    write(path, 2.0)
    move_away(path)
    write(path, 3.0)
    await tail.poll()
    tail.close()
    assert heard.lengths() == [1.0, 2.0, 3.0]
    assert tail.counts["rotations"] == 1


async def test_a_file_cut_short_is_read_anew(path: Path, heard: Heard) -> None:
    tail = LogTail([path], heard, from_start=True)
    write(path, 1.0, 2.0)
    await tail.poll()
    put(path, b"")
    write(path, 3.0)
    await tail.poll()
    tail.close()
    assert heard.lengths() == [1.0, 2.0, 3.0]


async def test_a_file_that_went_is_waited_for(path: Path, heard: Heard) -> None:
    tail = LogTail([path], heard, from_start=True)
    write(path, 1.0)
    await tail.poll()
    remove(path)
    await tail.poll()
    write(path, 2.0)
    await tail.poll()
    tail.close()
    assert heard.lengths() == [1.0, 2.0]


async def test_a_flood_is_read_from_nearer_its_end(path: Path, heard: Heard) -> None:
    tail = LogTail([path], heard, from_start=True)
    put(path, b"noise noise noise\n" * (BEHIND_BYTES // 10))
    write(path, 9.0)
    await tail.poll()
    await tail.poll()
    tail.close()
    assert heard.lengths() == [9.0]
    assert tail.counts["skipped_bytes"] > BEHIND_BYTES


async def test_an_endless_line_keeps_nothing_but_its_beginning(path: Path, heard: Heard) -> None:
    tail = LogTail([path], heard, from_start=True)
    put(path, b"x" * 3 * MAX_LINE)
    await tail.poll()
    assert len(tail._files[0]._rest) == MAX_LINE
    write(path, end="\n")
    write(path, 1.0)
    await tail.poll()
    tail.close()
    assert heard.lengths() == [1.0]


async def test_bytes_that_are_no_text_are_no_event(path: Path, heard: Heard) -> None:
    put(path, b"\xff\xfe\x00Decode batch\n")
    tail = LogTail([path], heard, from_start=True)
    await tail.poll()
    tail.close()
    assert heard.events == []
    assert tail.counts["lines"] == 1


async def test_a_place_that_cannot_be_read_is_counted(tmp_path: Path, heard: Heard) -> None:
    tail = LogTail([tmp_path], heard, from_start=True)  # a folder
    await tail.poll()
    assert tail.counts["unreadable"] == 1


async def test_it_follows_until_cancelled(path: Path, heard: Heard) -> None:
    write(path, 1.0)
    tail = LogTail([path], heard, from_start=True)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(tail.run(), name="logtail")
        async with asyncio.timeout(50):
            while not heard.events:  # noqa: ASYNC110 - the tail has no event of its own to wait for
                await asyncio.sleep(0.01)
        task.cancel()
    assert heard.events[0][1].kind is LogKind.ACCEPTANCE
    assert tail._files[0]._handle is None
    assert logtail.EVERY_S < 1
