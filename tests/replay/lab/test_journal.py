"""A run that was cut off goes on: what is done under the same settings is kept, and nothing else is read."""

from pathlib import Path

from replay.lab.journal import Journal
from replay.lab.racing import Tally


def test_blocks_survive_and_a_torn_line_does_not(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    Journal(path, "one").add("peak-0", Tally(sent=10, corrupted=1))
    Journal(path, "two").add("peak-1", Tally(sent=20))
    with path.open("ab") as file:
        file.write(b'{"digest":"one","block":"peak-2","tal')
    assert Journal(path, "one").done == {"peak-0": Tally(sent=10, corrupted=1)}
    assert "1 blocks" in repr(Journal(path, "one"))


def test_after_a_torn_line_new_blocks_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    path.write_bytes(b'{"digest":"one","block":"peak-2","tal')
    Journal(path, "one").add("peak-3", Tally(sent=5))
    assert Journal(path, "one").done == {"peak-3": Tally(sent=5)}


def test_without_a_file_nothing_is_kept() -> None:
    journal = Journal(None, "one")
    journal.add("idle-0", Tally(sent=1))
    assert journal.done["idle-0"].sent == 1
    assert Journal(None, "one").done == {}
