"""The trace: what was asked of a fleet and when, whatever format it came in.

    {"format": "specguard.trace/1", "source": "mooncake", "block_tokens": 512, ...}    the header line
    {"id": "0", "at_s": 0.0, "prompt_tokens": 6758, "output_tokens": 500, ...}        then a request a line

Times are seconds from the start of the trace. A request is known by its body, or only by its lengths and the
hashes of its prompt's blocks (each covers all before it: equal hashes are equal prefixes). Lines are written
and read one at a time, so that a trace may be larger than memory.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec

FORMAT: Final = "specguard.trace/1"
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A prompt of a million tokens takes some 4 MiB; a longer line is no request."""


class TraceError(ValueError):
    """A trace that cannot be used, and where and why."""


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a trace comes from and what was assumed when it was read."""

    format: str
    source: str
    block_tokens: int | None = None  # tokens a hash of `blocks` stands for
    units: dict[str, str] = {}  # column of the source -> unit it was read in
    salted: bool = False  # desensitised: no wording of the source is left
    notes: list[str] = []


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request as it arrived."""

    id: str
    at_s: float
    session: str = ""
    turn: int = 0
    parent: str = ""  # id of the request whose answer it waited for, in a DAG
    group: str = ""  # candidates asked for side by side share it
    path: str = "/v1/chat/completions"
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    blocks: tuple[int, ...] = ()
    body: dict[str, Any] | None = None  # None: made of lengths and blocks
    abort_after_s: float | None = None  # when its client gave up, from its arrival
    expected: str | None = None  # the answer that was recorded, or is known to be right

    def __repr__(self) -> str:
        return f"<TraceRequest {self.id} at {self.at_s} s>"

    def __post_init__(self) -> None:
        if not (0 <= self.at_s < float("inf")):
            raise ValueError("at_s must be a number of seconds from the start of the trace")


_header_decoder = msgspec.json.Decoder(TraceHeader)
_request_decoder = msgspec.json.Decoder(TraceRequest)
_encoder = msgspec.json.Encoder()


def write_trace(path: Path, header: TraceHeader, requests: Iterable[TraceRequest]) -> int:
    """Write a trace so that it is there whole or not at all; how many requests it holds."""
    beside = path.with_name(f".{path.name}.part")
    count = 0
    try:
        with beside.open("wb") as file:
            file.write(_encoder.encode(header) + b"\n")
            for request in requests:
                file.write(_encoder.encode(request) + b"\n")
                count += 1
        beside.replace(path)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
    return count


def read_trace(path: Path) -> tuple[TraceHeader, Iterator[TraceRequest]]:
    """The header, read at once, and the requests, read as they are asked for; raises TraceError."""
    with path.open("rb") as file:
        header = _header(path, file)
    return header, _requests(path)


def _header(path: Path, file: IO[bytes]) -> TraceHeader:
    line = file.readline(LINE_BYTES_MAX)
    try:
        header = _header_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise TraceError(
            f"{path.name}: is not a trace; make one of it with `specguard replay import {path.name}`"
        ) from None
    if header.format != FORMAT:
        raise TraceError(f"{path.name}: has format {header.format!r}; this release reads {FORMAT!r}")
    return header


def _requests(path: Path) -> Iterator[TraceRequest]:
    seen: set[str] = set()
    with path.open("rb") as file:
        file.readline(LINE_BYTES_MAX)
        number = 1
        while line := file.readline(LINE_BYTES_MAX):
            number += 1
            request = _request(path, number, line)
            if request.id in seen:
                raise TraceError(f"{path.name}:{number}: id {request.id!r} is there twice")
            seen.add(request.id)
            yield request


def _request(path: Path, number: int, line: bytes) -> TraceRequest:
    if not line.endswith(b"\n"):
        raise TraceError(f"{path.name}:{number}: the last line is cut off; the file is not whole")
    try:
        return _request_decoder.decode(line)
    except msgspec.ValidationError as error:
        raise TraceError(f"{path.name}:{number}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise TraceError(f"{path.name}:{number}: is not JSON") from None
