"""What a run found, one JSON line each, appended as it happens and never changed.

    {"kind":"run",...}       the header: plan, target, when, how fast this client was
    {"kind":"sent",...}      written before a request goes out
    {"kind":"result",...}    written when it has ended, however it ended
    {"kind":"metric",...}    a scrape of a worker or a router
    {"kind":"resumed",...}   the run went on after a kill, with its clock moved by `shift_s`
    {"kind":"closing",...}   it has ended, and whether it kept its schedule

`sent` comes first so that a run killed at any point can go on without sending anything twice: what was sent
and has no result was cut off, and is told as that. Each line is one write to the file: it outlives the
process the moment it is made, and the machine once it has been synced (`Sync`). A torn last line is dropped.

A full disk loses nothing: a reserve is set aside at the start, in a file without a name, so that a kill
leaves none behind. When a write fails the reserve is given back, `full` is set, and there is room for the
ends of the requests that are still under way.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec

FORMAT: Final = "specguard.results/1"
RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Room for the answers of some 1,000 requests under way with 4,000 tokens each."""
CUT_OFF: Final = "cut off"
"""The error of a request that this client left behind: killed, or told to stop."""
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Ending = Literal["complete", "error", "reset", "timeout", "aborted", "refused"]


class ResultsError(ValueError):
    """A results file that cannot be used, and why."""


class Sync(StrEnum):
    """When lines must have reached the disk itself: what a power cut may cost."""

    NEVER = "never"
    INTERVAL = "interval"  # every few seconds, off the loop
    EACH = "each"  # every result


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """One line of a results file."""


class RunHeader(Line, frozen=True, kw_only=True, tag="run"):
    """What was run, on what, and how good the client was just before."""

    plan_hash: str
    target: str
    started_at: str  # ISO 8601, UTC
    format: str = FORMAT
    shard: str = ""  # "k/n"
    calibration: dict[str, Any] = {}


class Resumed(Line, frozen=True, kw_only=True, tag="resumed"):
    """From here on times are those of the plan plus what the kill cost, taken out again."""

    at: str  # ISO 8601, UTC
    shift_s: float  # run time at which it went on


class Sent(Line, frozen=True, kw_only=True, tag="sent", omit_defaults=True):
    """About to go out."""

    id: str
    at_s: float
    arm: str = ""
    block: int = 0


class Result(Line, frozen=True, kw_only=True, tag="result", omit_defaults=True):
    """One request and all that came of it. Times in seconds from the start of the run."""

    id: str
    scheduled_s: float
    sent_s: float
    ended_s: float
    ending: Ending
    arm: str = ""
    block: int = 0
    first_byte_s: float | None = None
    chunk_s: list[float] = []  # when each event with text came, from `sent_s`
    status: int | None = None
    error: str | None = None  # of which kind; never what the model wrote
    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    spec: dict[str, Any] | None = None  # the engine's own totals of speculation
    steps: list[tuple[int, int]] | None = None  # drafted (-1: not told) and accepted of each verify step
    prefill: str | None = None
    decode: str | None = None
    rid: str | None = None
    attempts: int | None = None
    met: dict[str, dict[str, float]] = {}  # what each scraped page had last said when it went out

    def __repr__(self) -> str:
        """Leave the text out."""
        return f"<Result {self.id} {self.ending} status={self.status} {len(self.text)} chars>"


class Metric(Line, frozen=True, kw_only=True, tag="metric"):
    """What one exposition said: families by name, counters summed and gauges averaged over their series."""

    at_s: float
    url: str
    values: dict[str, float]


class Closing(Line, frozen=True, kw_only=True, tag="closing"):
    """How the run ended. Without one it never did; of several, one a resumption, the last counts."""

    kept: bool  # the schedule
    late_p99_ms: float  # of the arm that was worst
    late_limit_ms: float
    stopped: str | None = None  # before its end, by: errors, disk, interrupted, control, plan


AnyLine = RunHeader | Resumed | Sent | Result | Metric | Closing

_decoder = msgspec.json.Decoder(AnyLine)
_encoder = msgspec.json.Encoder()


class Past(msgspec.Struct, frozen=True):
    """What a results file says of the run that wrote it."""

    header: RunHeader
    done: frozenset[str]
    cut_off: tuple[Sent, ...]  # sent, and no result
    last_s: float  # the latest time it speaks of
    whole_bytes: int  # where its last whole line ends


class Journal:
    """The file of a run that is under way; one process writes it at a time."""

    def __init__(
        self,
        path: Path,
        sync: Sync = Sync.INTERVAL,
        *,
        write: Callable[[int, bytes], int] = os.write,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        self._path = path
        self._reserve = -1
        self._reserve_bytes = reserve_bytes
        self._sync = sync
        self._write = write
        self._file = -1
        self._size = 0
        self.full = False

    def __repr__(self) -> str:
        return f"<Journal {self._path.name} {self._size} bytes{' full' if self.full else ''}>"

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._size = os.fstat(self._file).st_size
            self._set_aside()
        except BlockingIOError:
            self._close()
            raise ResultsError(f"{self._path}: another run is writing it") from None
        except OSError as error:
            self._give_back()
            self._close()
            raise ResultsError(f"{self._path}: {os.strerror(error.errno or 0)}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        with suppress(OSError):
            self.sync()
        self._close()

    def begin(self, header: RunHeader) -> None:
        """Start a file; what a run that was killed over its first line has left is written over."""
        if self._size and look_back(self._path) is not None:
            raise ResultsError(f"{self._path} already holds a run: resume it, or name another file")
        self._cut(0)
        self.add(header)

    def resume(self, past: Past) -> None:
        """Go on where a killed run stopped: drop what is torn, tell what was cut off."""
        self._cut(past.whole_bytes)
        for sent in past.cut_off:
            self.add(cut_off(sent, past.last_s))

    def add(self, *lines: AnyLine) -> None:
        """Append; what has been added outlives this process."""
        self._append(b"".join([_encoder.encode(line) + b"\n" for line in lines]))

    def sync(self) -> None:
        """Wait until the disk has it; may be called from another thread."""
        if self._sync is not Sync.NEVER and self._file >= 0:
            os.fdatasync(self._file)

    def _append(self, data: bytes) -> None:
        before, left = self._size, data
        try:
            while left:
                written = self._write(self._file, left)
                self._size += written
                left = left[written:]
        except OSError as error:
            self._cut(before)
            if error.errno not in NO_SPACE or self.full:
                raise ResultsError(f"{self._path}: {os.strerror(error.errno or 0)}") from None
            self.full = True
            self._give_back()
            self._append(data)
            return
        if self._sync is Sync.EACH:
            self.sync()

    def _cut(self, size: int) -> None:
        os.ftruncate(self._file, size)
        self._size = size

    def _set_aside(self) -> None:
        if not self._reserve_bytes:
            return
        name = self._path.with_name(f".{self._path.name}.reserve")
        self._reserve = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        name.unlink()
        os.posix_fallocate(self._reserve, 0, self._reserve_bytes)

    def _give_back(self) -> None:
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _close(self) -> None:
        os.close(self._file)
        self._file = -1


def cut_off(sent: Sent, ended_s: float) -> Result:
    """What is known of a request that this client left behind."""
    ended = max(ended_s, sent.at_s)
    return Result(
        id=sent.id,
        arm=sent.arm,
        block=sent.block,
        scheduled_s=sent.at_s,
        sent_s=sent.at_s,
        ended_s=ended,
        ending="aborted",
        error=CUT_OFF,
    )


def read(path: Path) -> Iterator[AnyLine]:
    """Every line of a results file, in order; a torn last line is passed over."""
    yield from (line for line, _ in _lines(path))


def results_of(path: Path) -> Iterator[Result]:
    """Only the results."""
    yield from (line for line in read(path) if isinstance(line, Result))


def read_results(path: Path) -> tuple[RunHeader, Iterator[Result | Metric]]:
    """The header, and what was found."""
    lines = read(path)
    header = next(lines, None)
    if not isinstance(header, RunHeader):
        raise ResultsError(f"{path} is empty")
    return header, (line for line in lines if isinstance(line, Result | Metric))


def closing_of(path: Path) -> Closing | None:
    """How a run ended; None for one that never did."""
    last = None
    for line in read(path):
        last = line
    return last if isinstance(last, Closing) else None


def look_back(path: Path) -> Past | None:
    """What a file says of its run; None where there is none yet."""
    if not path.exists() or not path.stat().st_size:
        return None
    header, done, sent, last_s, whole = None, set[str](), dict[str, Sent](), 0.0, 0
    for line, whole in _lines(path):  # noqa: B007 - the last one counts
        match line:
            case RunHeader():
                header = line
            case Sent():
                sent[line.id], last_s = line, max(last_s, line.at_s)
            case Result():
                done.add(line.id)
                sent.pop(line.id, None)
                last_s = max(last_s, line.ended_s)
            case _:
                pass
    if header is None:
        return None
    return Past(header, frozenset(done), tuple(sent.values()), last_s, whole)


def _lines(path: Path) -> Iterator[tuple[AnyLine, int]]:
    """Each line, and where it ends."""
    end = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.endswith(b"\n"):
                return
            end += len(raw)
            try:
                line = _decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
                raise ResultsError(f"{path}, line {number}: {wrong}") from None
            if number == 1 and not (isinstance(line, RunHeader) and line.format == FORMAT):
                raise ResultsError(f"{path} is no results file: its first line is no {FORMAT} header")
            yield line, end
