"""What an importer reads from."""

from pathlib import Path

import pytest

from replay.importers.source import Source, SourceError


def test_a_moment_without_a_zone_is_utc_and_said_so() -> None:
    source = Source(Path("given"))
    assert source.moment("1970-01-01 00:00:01.5", "at", 1) == 1.5
    assert source.tally.notes == ["at names no time zone: read as UTC"]
    assert source.moment("1970-01-01T01:00:00+01:00", "at", 1) == 0.0


@pytest.mark.parametrize("value", ["nan", "inf", None, True, "x", [], 10**400])
def test_what_is_no_number_is_named(value: object) -> None:
    with pytest.raises(SourceError, match="given:7: at must be a number"):
        Source(Path("given")).number(value, "at", 7)


def test_a_note_is_told_once() -> None:
    source = Source(Path("given"))
    source.tally.note("x")
    source.tally.note("x")
    assert source.tally.notes == ["x"]


def test_a_byte_order_mark_hides_no_column(tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    assert [row for _, row in Source(path).rows("a", "b")] == [{"a": "1", "b": "2"}]
