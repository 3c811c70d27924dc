"""The datagram: what leaves the scheduler at each step. Little endian, columns, 1,400 bytes at most.

    magic "SGPb" | version u8 | kind u8 | role u8 | flags u8 | dp_rank i16 | depth u16 | rows u16
    | name length u16 | epoch u64 | counter u64 | lost u32 | running u32 | waiting u32 | preparing u32
    | moving u32 | name
    | keys rows x 8 bytes | rooms rows x u64 (if flagged) | steps rows x u32 | accepted rows x u8
    | MAC 16 bytes (UDP): HMAC-SHA256, cut

    key       BLAKE2b-64 of the rid: a stream's chunk `id` finds it again, and rows have one width
    room      the bootstrap room of prefill/decode disaggregation; NO_ROOM without
    step      the request's verify steps so far: a gap shows whatever was lost on the way
    accepted  draft tokens of that step; NO_STEP: the request is here for the first time, nothing verified
    epoch     nanoseconds of the wall clock when this process began to send; a restart begins a new one
    counter   datagrams of this epoch; the same to every sidecar
    depth     draft tokens that a step can accept at most; 0: not known
    preparing, moving   requests in the bootstrap and in-flight queues of a prefill worker, in the
                        pre-allocation and transfer queues of a decode worker; 0 otherwise

A status datagram has no rows; after the name it carries its text. The reader of all this is
`service.core.telemetry_wire`: the probe may not import it, one test holds the two together.
"""

import hmac
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

MAGIC: Final = b"SGPb"
VERSION: Final = 1
STEPS: Final = 1
STATUS: Final = 2
ROLES: Final = {"null": 0, "prefill": 1, "decode": 2}
ROOMS: Final = 1  # flag: the rows carry rooms
ASIDE: Final = 2  # flag of a status: the probe has stood aside
NO_STEP: Final = 255
NO_ROOM: Final = (1 << 64) - 1
MAC_BYTES: Final = 16
MAX_BYTES: Final = 1400  # fits an Ethernet frame with its headers: never fragmented
MAX_TEXT_BYTES: Final = 400
HEADER: Final = Struct("<4sBBBBhHHHQQIIIII")
U32_BYTES: Final = 4
_ROW_BYTES: Final = 8 + U32_BYTES + 1
_ROOM_BYTES: Final = 8


@dataclass(slots=True)
class Origin:
    """Who sends: what stays the same from step to step, and the counters that move."""

    name: bytes = b""
    role: int = 0
    dp_rank: int = -1
    depth: int = 0
    epoch: int = 0
    counter: int = 0


class Load(NamedTuple):
    """How long the scheduler's queues are."""

    running: int = 0
    waiting: int = 0
    preparing: int = 0
    moving: int = 0


NO_LOAD: Final = Load()


class Rows(NamedTuple):
    """One scheduler step's requests, in parallel columns, as they are sent."""

    keys: bytes
    rooms: bytes  # b"" without disaggregation
    steps: bytes
    accepted: bytes  # one byte a row: as many rows as bytes

    def part(self, start: int, end: int) -> "Rows":
        wide, steps = slice(8 * start, 8 * end), slice(U32_BYTES * start, U32_BYTES * end)
        return Rows(self.keys[wide], self.rooms[wide], self.steps[steps], self.accepted[start:end])


def key_of(rid: str) -> bytes:
    return blake2b(rid.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def u32_column(numbers: list[int]) -> bytes:
    return _struct(len(numbers)).pack(*numbers)


def rows_at_most(origin: Origin) -> int:
    """Rows that one datagram holds."""
    room = MAX_BYTES - HEADER.size - len(origin.name) - MAC_BYTES
    return room // (_ROW_BYTES + (_ROOM_BYTES if origin.role else 0))


def steps_datagram(origin: Origin, load: Load, lost: int, rows: Rows) -> bytes:
    """One scheduler step, or a part of it. The counter moves on."""
    keys, rooms, steps, accepted = rows
    head = _header(origin, load, lost, STEPS, ROOMS if rooms else 0, len(accepted))
    return b"".join((head, origin.name, keys, rooms, steps, accepted))


def status_datagram(origin: Origin, lost: int, text: str, *, aside: bool) -> bytes:
    """How the probe itself is doing. The counter moves on."""
    body = text.encode("utf-8", "replace")[:MAX_TEXT_BYTES]
    return _header(origin, NO_LOAD, lost, STATUS, ASIDE if aside else 0, 0) + origin.name + body


def sign(datagram: bytes, key: bytes) -> bytes:
    return datagram + hmac.digest(key, datagram, "sha256")[:MAC_BYTES]


def _header(origin: Origin, load: Load, lost: int, kind: int, flags: int, rows: int) -> bytes:
    counter = origin.counter
    origin.counter = counter + 1
    return HEADER.pack(
        MAGIC,
        VERSION,
        kind,
        origin.role,
        flags,
        origin.dp_rank,
        origin.depth,
        rows,
        len(origin.name),
        origin.epoch,
        counter,
        lost,
        load.running,
        load.waiting,
        load.preparing,
        load.moving,
    )


@lru_cache(maxsize=256)
def _struct(rows: int) -> Struct:
    return Struct(f"<{rows}I")
