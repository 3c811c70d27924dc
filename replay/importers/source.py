"""What an importer reads from and what it tells: one file, the choices of its user, and a tally beside it."""

import csv
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

LINE_CHARS_MAX: Final = 64 * 1024 * 1024
FIELD_CHARS_MAX: Final = 1024 * 1024
WHOLE_BYTES_MAX: Final = 512 * 1024 * 1024
"""A format that is one JSON value has to fit in memory."""
TOKENS_MAX: Final = 1_000_000_000
"""No request has more; a larger number is no number of tokens."""
HASH_MAX: Final = (1 << 63) - 1

Unit = Literal["s", "ms", "us", "ns"]
SECONDS: Final[dict[Unit, float]] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class SourceError(ValueError):
    """A file that cannot be imported: where and why."""


class Question(SourceError):  # noqa: N818 - it asks
    """A file that can be read in two ways; the message says which option answers."""


@dataclass(slots=True)
class Tally:
    """What was noticed while reading."""

    units: dict[str, str] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)  # fields that a trace has no place for
    skipped: Counter[str] = field(default_factory=Counter)  # rows that are no request, by reason
    notes: list[str] = field(default_factory=list)
    block_tokens: int | None = None
    timed: bool = True  # the format says when requests came
    guessed_unit: str = ""  # a column whose unit neither the format nor the user tells
    guessed_blocks: bool = False  # the size of a block is the usual one

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


@dataclass(slots=True)
class Source:
    """A file and how its user wants it read; None and "auto" leave it to what the file shows."""

    path: Path
    unit: Unit | None = None
    block_tokens: int | None = None
    session_rows: Literal["auto", "delta", "cumulative"] = "auto"
    tally: Tally = field(default_factory=Tally)

    @property
    def name(self) -> str:
        return self.path.name

    def fault(self, what: str, line: int = 0) -> SourceError:
        return SourceError(f"{self.name}:{line}: {what}" if line else f"{self.name}: {what}")

    # --- reading ---

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines that hold something; one cut off at the end of the file is an error."""
        with self.path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            number = 0
            while line := file.readline(LINE_CHARS_MAX):
                number += 1
                if line.strip():
                    yield number, line

    def json_lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in self.lines():
            yield number, self.parsed(line, number)

    def parsed(self, line: str, number: int) -> dict[str, Any]:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            cut = "is cut off; the file is not whole" if not line.endswith("\n") else "is not JSON"
            raise self.fault(cut, number) from None
        if not isinstance(value, dict):
            raise self.fault("is not a JSON object", number)
        return value

    def whole(self) -> Any:  # noqa: ANN401 - any JSON value
        """The file as one JSON value."""
        if self.path.stat().st_size > WHOLE_BYTES_MAX:
            raise self.fault(
                f"is larger than {WHOLE_BYTES_MAX >> 20} MiB, which this format is read whole in"
            )
        try:
            return msgspec.json.decode(self.path.read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self.fault("is not JSON, or is cut off") from None

    def rows(self, *columns: str) -> Iterator[tuple[int, dict[str, str]]]:
        """Rows of a CSV that has these columns, numbered as lines of the file."""
        csv.field_size_limit(FIELD_CHARS_MAX)
        with self.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise self.fault(f"has no column {', '.join(missing)}")
            for row in reader:
                if None in row.values() or None in row:
                    raise self.fault("has more or fewer fields than the header", reader.line_num)
                yield reader.line_num, row

    # --- what a file does not say ---

    def seconds_of(self, column: str, usual: Unit) -> float:
        """In one of a column's numbers: as its user says, else as usual, which is then looked at."""
        unit = self.unit or usual
        self.tally.units[column] = unit
        if self.unit is None:
            self.tally.guessed_unit = column
        return SECONDS[unit]

    def block_size(self, usual: int) -> int:
        """Tokens of a block: as its user says, else as usual, which is then looked at."""
        self.tally.block_tokens = self.block_tokens or usual
        self.tally.guessed_blocks = self.block_tokens is None
        return self.tally.block_tokens

    # --- values ---

    def count(self, value: Any, column: str, line: int) -> int:  # noqa: ANN401 - as it was read
        """A number of tokens."""
        try:
            found = int(value)
        except (TypeError, ValueError, OverflowError):
            found = -1
        if not 0 <= found <= TOKENS_MAX or isinstance(value, bool):
            raise self.fault(f"{column} must be a number of tokens", line)
        return found

    def hashes(self, value: Any, column: str, line: int) -> tuple[int, ...]:  # noqa: ANN401 - as it was read
        """Hashes of a prompt's blocks; none where the row has none."""
        found = value if value is not None else []
        if not isinstance(found, list) or not all(map(_is_hash, found)):
            raise self.fault(f"{column} must be whole numbers", line)
        return tuple(found)

    def objects(self, value: Any, what: str, line: int = 0) -> list[dict[str, Any]]:  # noqa: ANN401 - as it was read
        """A list of JSON objects; none where nothing is said."""
        found = value if value is not None else []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.fault(f"{what} must be a list of objects", line)
        return found

    def number(self, value: Any, column: str, line: int) -> float:  # noqa: ANN401 - as it was read
        """A time in whatever unit."""
        try:
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            found = float("nan")
        if not abs(found) < float("inf") or isinstance(value, bool):
            raise self.fault(f"{column} must be a number", line)
        if found < 0:
            raise self.fault(f"{column} must not be negative", line)
        return found

    def moment(self, value: Any, column: str, line: int) -> float:  # noqa: ANN401 - as it was read
        """Seconds since 1970 of a date and time; one without a zone is taken as UTC."""
        try:
            # Seven digits after the point are .NET's; a datetime holds six.
            found = datetime.fromisoformat(str(value).strip())
        except ValueError:
            raise self.fault(f"{column} must be a date and time", line) from None
        if found.tzinfo is None:
            self.tally.note(f"{column} names no time zone: read as UTC")
            found = found.replace(tzinfo=UTC)
        if (since_s := found.timestamp()) < 0:
            raise self.fault(f"{column} lies before 1970", line)
        return since_s

    def drop(self, keys: AbstractSet[str]) -> None:
        self.tally.dropped.update(keys)


def tokens_of(value: object) -> int | None:
    """A number of tokens that somebody noted in passing; None for what is none."""
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MAX
    return value if known and isinstance(value, int) else None


def _is_hash(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -HASH_MAX <= value <= HASH_MAX
