"""What of a long run is done, on disk: a run that was cut off goes on where it stopped.

One JSON line a block, with the digest of the settings that it was run under. Lines of other settings stay
and are not read; a line that was being written when the run ended is passed over.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from replay.lab.racing import Tally


class Entry(msgspec.Struct):
    """One line of the journal: a block that is done."""

    digest: str
    block: str
    tally: Tally


class Journal:
    """Blocks that are done, on disk, so that a long run goes on where it was cut off."""

    def __init__(self, path: Path | None, digest: str) -> None:
        """Read what is there of these settings; None keeps nothing."""
        self._path = path
        self._digest = digest
        self.done: dict[str, Tally] = {}
        if path is not None and path.exists():
            self.done = dict(_entries(path, digest))

    def __repr__(self) -> str:
        """Count the blocks."""
        return f"<Journal {len(self.done)} blocks>"

    def add(self, block: str, tally: Tally) -> None:
        """Keep a block."""
        self.done[block] = tally
        if self._path is not None:
            # the newline comes first: behind a torn line it begins a new one
            with self._path.open("ab") as file:
                file.write(b"\n" + msgspec.json.encode(Entry(self._digest, block, tally)))


def _entries(path: Path, digest: str) -> Iterator[tuple[str, Tally]]:
    for line in path.read_bytes().splitlines():
        with suppress(msgspec.DecodeError):  # the line that was being written when the run was cut off
            entry = msgspec.json.decode(line, type=Entry)
            if entry.digest == digest:
                yield entry.block, entry.tally
