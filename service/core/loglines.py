"""Turns an engine's log lines into events: what SGLang itself knows of trouble, and how it decodes.

A line is looked at for a few fixed words near its beginning; only one that has them is taken apart. Prefixes
(dates, ranks, process ids) are passed over, a line cut in the middle gives what is left of it or nothing, and
one longer than `MAX_LINE` is cut. Lines of the request log are passed over: a user's text may say anything.
Nothing is kept but rids, rooms, numbers and a reason from a fixed list.

Evidence of corruption, each from one of the engine's own checks: `checksum_mismatch`, `context_corruption`,
`canary_violation`, `nan`, and `deferred_release_timeout` (KV slots let go before the writer was heard of).

Cost: 2 us for a line of no interest, 12 for a decode line.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import msgspec

from service.core.events import UNKNOWN

MAX_LINE: Final = 4096
BEGINNING: Final = 200
"""Characters in which a line must show what it is: the longest prefix has about a hundred."""
_REQUEST_LOG: Final = ("Receive: obj=", "Receive OpenAI: obj=", "Finish: obj=", '"event": "request.')


class LogKind(StrEnum):
    DECODE_BATCH = "decode_batch"
    PREFILL_BATCH = "prefill_batch"
    ACCEPTANCE = "acceptance"  # a line about acceptance alone
    CACHED_PROMPT = "cached_prompt"
    RETRACTION = "retraction"
    TRANSFER_FAILED = "transfer_failed"
    HANDSHAKE_FAILED = "handshake_failed"
    BOOTSTRAP_FAILED = "bootstrap_failed"
    METADATA_NOT_READY = "metadata_not_ready"
    DEFERRED_RELEASE_TIMEOUT = "deferred_release_timeout"
    CHECKSUM_MISMATCH = "checksum_mismatch"
    CONTEXT_CORRUPTION = "context_corruption"
    CANARY_VIOLATION = "canary_violation"
    NAN = "nan"
    CRASH = "crash"


CORRUPTION: Final = frozenset(
    {
        LogKind.CHECKSUM_MISMATCH,
        LogKind.CONTEXT_CORRUPTION,
        LogKind.CANARY_VIOLATION,
        LogKind.NAN,
        LogKind.DEFERRED_RELEASE_TIMEOUT,
    }
)
"""The engine's own checks say that state is, or may be, corrupt."""


class LogEvent(msgspec.Struct, frozen=True):
    """One line, understood."""

    kind: LogKind
    numbers: dict[str, float] = {}
    per_position: tuple[float, ...] = ()  # acceptance rate of the first, second, ... draft token
    rid: str = ""
    room: int = UNKNOWN
    other_room: int = UNKNOWN  # of the request whose metadata came instead
    reason: str = ""
    dp_rank: int = UNKNOWN


_NAMES: Final = {
    "#running-req": "running",
    "#queue-req": "queue",
    "#token": "tokens",
    "token usage": "token_usage",
    "accept len": "accept_len",
    "accept rate": "accept_rate",
    "gen throughput (token/s)": "gen_throughput",
    "pre-allocated usage": "preallocated_usage",
    "#prealloc-req": "prealloc",
    "#transfer-req": "transfer",
    "#retracted-req": "retracted",
    "#new-seq": "new_sequences",
    "#new-token": "new_tokens",
    "#cached-token": "cached_tokens",
    "#bootstrap-req": "bootstrap",
    "#inflight-req": "inflight",
    "input throughput (token/s)": "input_throughput",
    "#retracted_reqs": "retracted",
    "Mean acceptance length": "accept_len",
    "Accepted": "accepted",
    "Drafted": "drafted",
    "Avg Draft acceptance rate": "accept_rate",
}
"""The engine's words, and ours."""

_REASONS: Final = (
    ("Aborted by AbortReq", "aborted"),
    ("timed out", "timeout"),
    ("Lost connection", "lost_connection"),
    ("from another rank", "other_rank"),
    ("bootstrap failed", "bootstrap_failed"),
    ("HiCache local restore failed", "hicache_restore"),
)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_ROOM: Final = re.compile(r"bootstrap_room=(\d+)")
_RID: Final = re.compile(r"""(?:\brid=|\breq=|Request )['"]?([\w.:-]{1,128})""")
_DP: Final = re.compile(r"^\[[^\]]* DP(\d+)")
_POSITIONS: Final = re.compile(r"Per-position acceptance rate:\s*((?:\d\.\d+(?:,\s*)?)+)")
_AVERAGE: Final = re.compile(r"\bAvg\D{0,40}([\d.]+)\s*%")
_SPEC_AVERAGE: Final = re.compile(r"avg_spec_accept_length=([\d.]+)")
_CACHED: Final = re.compile(r"\bprompt=\s*(\d+)\s+cached=\s*(\d+)")
_CANARY: Final = re.compile(r"launch_tag=(\S+) fail_reason=(\S+)(?: slot_idx=(\d+))?(?: position=(\d+))?")
_DEFERRED: Final = re.compile(r"release for room (\d+) timed out after ([\d.]+)s")


def read(line: str) -> LogEvent | None:
    """The event of a line; None for a line of no interest. Never raises."""
    beginning = line[:BEGINNING]
    for words, kind, reader in _READERS:
        if words in beginning:
            return None if any(mark in beginning for mark in _REQUEST_LOG) else reader(kind, line[:MAX_LINE])
    return None


def _batch(kind: LogKind, line: str) -> LogEvent | None:
    """`name: value` pairs between commas."""
    numbers: dict[str, float] = {}
    for item in line.split(", "):
        name, colon, value = item.rpartition(": ")
        ours = _NAMES.get(name.rpartition(". ")[2].rpartition(": ")[2].strip())
        if colon and ours and (number := _NUMBER.match(value)):
            numbers[ours] = float(number[0])
    return LogEvent(kind, numbers, dp_rank=_dp_rank(line)) if numbers else None


def _acceptance(kind: LogKind, line: str) -> LogEvent | None:
    batch = _batch(kind, line)
    numbers = batch.numbers if batch is not None else {}
    if average := _AVERAGE.search(line):
        numbers["accept_rate"] = round(float(average[1]) / 100, 6)
    if mean := _SPEC_AVERAGE.search(line):
        numbers["accept_len"] = float(mean[1])
    found = _POSITIONS.search(line)
    positions = tuple(float(number) for number in _NUMBER.findall(found[1])) if found else ()
    return LogEvent(kind, numbers, positions) if numbers or positions else None


def _cached(kind: LogKind, line: str) -> LogEvent | None:
    found = _CACHED.search(line)
    if not found:
        return None
    return LogEvent(kind, {"prompt_tokens": float(found[1]), "cached_tokens": float(found[2])})


def _request(kind: LogKind, line: str) -> LogEvent:
    """A line about one request, or about one room."""
    rooms = [int(room) for room in _ROOM.findall(line)]
    rid = _RID.search(line)
    others = [room for room in rooms if room != rooms[0]]
    return LogEvent(
        kind,
        rid=rid[1] if rid else "",
        room=rooms[0] if rooms else UNKNOWN,
        other_room=others[0] if others else UNKNOWN,
        reason=next((ours for words, ours in _REASONS if words in line), ""),
        dp_rank=_dp_rank(line),
    )


def _deferred(kind: LogKind, line: str) -> LogEvent:
    found = _DEFERRED.search(line)
    if not found:
        return LogEvent(kind)
    return LogEvent(kind, {"after_s": float(found[2])}, room=int(found[1]))


def _canary(kind: LogKind, line: str) -> LogEvent:
    found = _CANARY.search(line)
    if not found:
        return LogEvent(kind)
    numbers = {name: float(found[place]) for name, place in (("slot", 3), ("position", 4)) if found[place]}
    return LogEvent(kind, numbers, reason=found[2][:64])


def _bare(kind: LogKind, line: str) -> LogEvent:
    return LogEvent(kind, dp_rank=_dp_rank(line))


def _dp_rank(line: str) -> int:
    found = _DP.match(line)
    return int(found[1]) if found else UNKNOWN


_Reader = Callable[[LogKind, str], LogEvent | None]

_READERS: Final[tuple[tuple[str, LogKind, _Reader], ...]] = (
    ("Decode batch", LogKind.DECODE_BATCH, _batch),
    ("Prefill batch", LogKind.PREFILL_BATCH, _batch),
    ("SpecDecoding metrics", LogKind.ACCEPTANCE, _acceptance),
    ("Per-position acceptance rate", LogKind.ACCEPTANCE, _acceptance),
    ("avg_spec_accept_length=", LogKind.ACCEPTANCE, _acceptance),
    ("Context corruption detected", LogKind.CONTEXT_CORRUPTION, _request),
    ("KV checksum mismatch", LogKind.CHECKSUM_MISMATCH, _request),
    ("kv_canary violation", LogKind.CANARY_VIOLATION, _canary),
    ("Deferred KV release", LogKind.DEFERRED_RELEASE_TIMEOUT, _deferred),
    ("NaN detected", LogKind.NAN, _bare),
    ("Metadata unexpectedly not ready", LogKind.METADATA_NOT_READY, _request),
    ("transfer failed for request", LogKind.TRANSFER_FAILED, _request),
    ("handshake failed for request", LogKind.HANDSHAKE_FAILED, _request),
    ("bootstrap failed for request", LogKind.BOOTSTRAP_FAILED, _request),
    ("#retracted_reqs", LogKind.RETRACTION, _batch),
    ("hit an exception", LogKind.CRASH, _bare),
    ("cached=", LogKind.CACHED_PROMPT, _cached),
)
"""Words, in the order of how often their lines come; the first that is found decides."""
