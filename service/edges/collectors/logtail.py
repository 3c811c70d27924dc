"""Follows engines' log files: new lines become events, whatever becomes of the files.

A file may not be there yet, be cut short in place, or be moved away and begun anew; then the rest of the old
one is read first. A line without its end waits for it, up to `loglines.MAX_LINE`. Following starts at the end
of a file: what was written before we came is history.

A file that grows faster than it is read is read from nearer its end: `skipped_bytes` tells how much was left
out. Reading happens off the loop that serves streams.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final

from service.core.loglines import MAX_LINE, LogEvent, read

EVERY_S: Final = 0.5
READ_BYTES: Final = 1 << 18
"""A look at one file; some 20 ms of work at most."""
BEHIND_BYTES: Final = 8 << 20

Sink = Callable[[str, LogEvent], None]
"""Called on the loop with the file's name and the event."""


class LogTail:
    """Several files; `run` it as a task."""

    def __init__(self, paths: Iterable[Path], sink: Sink, *, from_start: bool = False) -> None:
        self.counts: Counter[str] = Counter()  # lines, events, rotations, skipped_bytes, unreadable
        self._files = [_File(path, self.counts, from_start=from_start) for path in paths]
        self._sink = sink

    def __repr__(self) -> str:
        return f"<LogTail {len(self._files)} files, {self.counts['events']} events>"

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await self.poll()
                await asyncio.sleep(EVERY_S)
        finally:
            self.close()

    async def poll(self) -> None:
        """Look at every file once. Never raises."""
        for file in self._files:
            for event in await asyncio.to_thread(file.look):
                self._sink(file.path.name, event)

    def close(self) -> None:
        for file in self._files:
            file.close()


class _File:
    """One file, under whatever inode its name has now."""

    __slots__ = ("_counts", "_handle", "_inode", "_rest", "_to_end", "path")

    def __init__(self, path: Path, counts: Counter[str], *, from_start: bool) -> None:
        self.path = path
        self._counts = counts
        self._to_end = not from_start  # only the very first time
        self._handle: BinaryIO | None = None
        self._inode = 0
        self._rest = b""

    def look(self) -> list[LogEvent]:
        """The events of what was written since the last look."""
        try:
            return self._look()
        except OSError:
            self._counts["unreadable"] += 1
            self.close()
            return []

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        self._rest = b""

    def _look(self) -> list[LogEvent]:
        events: list[LogEvent] = []
        if self._handle is not None:
            events += self._read()
            if not self._moved():
                return events
            events += self._read()  # what came between the two
            self._counts["rotations"] += 1
            self.close()
        if self.path.exists():
            self._open()
            events += self._read()
        self._to_end = False
        return events

    def _open(self) -> None:
        handle = self.path.open("rb")
        self._handle = handle
        self._inode = os.fstat(handle.fileno()).st_ino
        if self._to_end:
            handle.seek(0, os.SEEK_END)

    def _moved(self) -> bool:
        """Whether the name stands for another file now, or the file was cut short."""
        assert self._handle is not None  # noqa: S101 - the caller has looked
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return True
        return found.st_ino != self._inode or found.st_size < self._handle.tell()

    def _read(self) -> list[LogEvent]:
        handle = self._handle
        if handle is None:
            return []
        behind = os.fstat(handle.fileno()).st_size - handle.tell()
        if behind > BEHIND_BYTES:
            handle.seek(behind - READ_BYTES, os.SEEK_CUR)
            self._counts["skipped_bytes"] += behind - READ_BYTES
            self._rest = b""
        data = self._rest + handle.read(READ_BYTES)
        *lines, self._rest = data.split(b"\n")
        self._rest = self._rest[:MAX_LINE]
        self._counts["lines"] += len(lines)
        found = (read(line[:MAX_LINE].decode("utf-8", "replace")) for line in lines)
        events = [event for event in found if event is not None]
        self._counts["events"] += len(events)
        return events
