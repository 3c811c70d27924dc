"""The plan: what is sent when, decided before anything is sent, in a file with a hash.

    {"format": "specguard.plan/1", "hash": "9f2c...", "seed": 7, "arms": [...], "blocks": [...], ...}   header
    {"id": "0.peak.17", "arm": "peak", "block": 1, "at_s": 12.5, "body": {...}}                  a send a line

Arms are load levels (or settings of one knob). Each round runs every arm once, in an order drawn by lot; one
more block of the lowest arm ends the run, to see whether what went wrong goes away (round RETURN). What is to
be compared, how large a difference matters and which events are one incident stand in the header: they are
part of the hash, and the judge takes no others.

A send has a body, or the recipe of one: lengths and prefix blocks, from which the client makes the text when
it is due (`replay.planning.bodies`). A day of long prompts would be gigabytes otherwise.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any, Final, Literal

import msgspec

FORMAT: Final = "specguard.plan/1"
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""As in a trace."""

RETURN: Final = -1
"""The round of the block that goes back to the lowest arm at the end; it is told, but not compared."""

Event = Literal["corrupt", "wrong", "changed"]
"""A detector says so; not the expected answer; not the low arm's answer to the same request."""

Role = Literal["sample", "dose", "canary", "control"]
"""Only samples are counted. A dose is mere load, a canary has a mark, a control repeats a sample idle."""


class PlanError(ValueError):
    """A plan that cannot be used or made, and why."""


class Arm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One level. `knobs["control"][ROLE]` is posted to every control URL of that role before a block."""

    name: str
    load: float = 1.0  # multiple of the trace's own arrival rate
    knobs: dict[str, Any] = {}


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A stretch of the run at one level."""

    index: int
    arm: str
    start_s: float
    end_s: float
    round: int = 0


class Contrast(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The one question that the run was planned to answer."""

    low: str
    high: str
    margin_per_10k: float  # a difference below this does not matter
    incident_window_s: float  # bad answers of one worker within this are one incident
    event: Event = "corrupt"
    alpha: float = 0.05
    power: float = 0.9
    late_s: float | None = None  # lateness of this client that changes nothing here; None: the pacer's rule


class PlanHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a plan is about."""

    format: str = FORMAT
    hash: str = ""  # of this header without it, and of every line below
    seed: int = 0
    arms: list[Arm] = []
    blocks: list[Block] = []
    contrast: Contrast | None = None
    target_model: str = ""
    sends: int = 0
    duration_s: float = 0.0
    notes: list[str] = []


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A prompt known by lengths and prefix blocks only."""

    prompt_tokens: int
    output_tokens: int | None = None
    blocks: tuple[int, ...] = ()
    block_tokens: int = 0
    salt: str = ""  # another salt shares no prefix with this one
    seed: int | None = None


class Send(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request to be sent."""

    id: str
    arm: str
    block: int
    at_s: float  # from the start of the run
    path: str = "/v1/chat/completions"
    body: dict[str, Any] | None = None
    recipe: Recipe | None = None
    role: Role = "sample"
    session: str = ""
    turn: int = 0
    group: str = ""  # candidates of one step
    after: str | None = None  # not before that send has ended, and `gap_s` more
    gap_s: float = 0.0
    abort_after_s: float | None = None
    canary: str | None = None
    expected: str | None = None
    control_of: str | None = None

    def __repr__(self) -> str:
        return f"<Send {self.id} {self.arm} at {self.at_s} s>"


_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(PlanHeader)
_send_decoder = msgspec.json.Decoder(Send)


def write_plan(path: Path, header: PlanHeader, sends: Iterable[Send]) -> PlanHeader:
    """Write a plan, whole or not at all; the header as it was written, hash included."""
    body, beside = path.with_name(f".{path.name}.sends"), path.with_name(f".{path.name}.part")
    header = _plain(header)
    digest, count = _digest_of(header), 0
    try:
        with body.open("w+b") as file:
            for send in sends:
                line = _encoder.encode(send) + b"\n"
                digest.update(line)
                file.write(line)
                count += 1
            file.seek(0)
            header = msgspec.structs.replace(header, hash=digest.hexdigest(), sends=count)
            with beside.open("wb") as whole:
                whole.write(_encoder.encode(header) + b"\n")
                copyfileobj(file, whole)
        beside.replace(path)
    finally:
        for left in (body, beside):
            with suppress(FileNotFoundError):
                left.unlink()
    return header


def _plain(header: PlanHeader) -> PlanHeader:
    """As it will be read: 4 for 4.0 would be another text, and JSON has no infinity."""
    try:
        return _header_decoder.decode(_encoder.encode(header))
    except msgspec.ValidationError as error:
        raise PlanError(f"numbers of a plan are finite: {error}") from None


def read_header(path: Path) -> PlanHeader:
    """Only the first line: fast, and not yet verified."""
    with path.open("rb") as file:
        return _header(path, file)


def read_plan(path: Path) -> tuple[PlanHeader, Iterator[Send]]:
    """The header, read at once, and the sends, read as they are asked for; raises PlanError.

    The hash is verified when the last line has been read: a plan that was changed fails there.
    """
    return read_header(path), _sends(path)


def verify(path: Path) -> PlanHeader:
    """Read a plan to its end; the header of one that is whole and unchanged."""
    header, sends = read_plan(path)
    for _ in sends:
        pass
    return header


def _digest_of(header: PlanHeader) -> "hashlib._Hash":
    bare = msgspec.structs.replace(header, hash="", sends=0)
    return hashlib.sha256(_encoder.encode(bare) + b"\n")


def _header(path: Path, file: IO[bytes]) -> PlanHeader:
    line = file.readline(LINE_BYTES_MAX)
    try:
        header = _header_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise PlanError(f"{path.name}: is not a plan; make one with `specguard replay plan`") from None
    if header.format != FORMAT:
        raise PlanError(f"{path.name}: has format {header.format!r}; this release reads {FORMAT!r}")
    return header


def _sends(path: Path) -> Iterator[Send]:
    return (send for _, send in placed(path))


def placed(path: Path) -> Iterator[tuple[int, Send]]:
    """Each send and where its line begins; verified as `read_plan` does."""
    with path.open("rb") as file:
        header = _header(path, file)
        digest, number, at = _digest_of(header), 1, file.tell()
        while line := file.readline(LINE_BYTES_MAX):
            number += 1
            digest.update(line)
            yield at, _send(path, number, line)
            at += len(line)
    if digest.hexdigest() != header.hash:
        raise PlanError(f"{path.name}: is not whole or was changed after it was made: its hash differs")


def _send(path: Path, number: int, line: bytes) -> Send:
    try:
        return _send_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{path.name}:{number}: {error}") from None
