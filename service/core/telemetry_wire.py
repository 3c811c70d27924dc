"""Reads the probe's datagrams. The layout is described, and written, in `service.probe.wire`.

Whoever can reach the port can send, so nothing is believed before its lengths fit; over UDP the MAC comes
first of all. What cannot be read is a `Fault`: a value to count, no exception.

Cost: 4 us a datagram of 64 rows, and 3 more where a MAC is checked.
"""

import hmac
from enum import IntEnum, StrEnum
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

import msgspec

MAGIC: Final = b"SGPb"
VERSION: Final = 1
MAX_BYTES: Final = 2048  # the probe keeps to 1,400
MAC_BYTES: Final = 16
NO_STEP: Final = 255
NO_ROOM: Final = (1 << 64) - 1
_HEADER: Final = Struct("<4sBBBBhHHHQQIIIII")
_STEPS, _STATUS = 1, 2
_ROOMS, _ASIDE = 1, 2
_ROW_BYTES: Final = 8 + 4 + 1
_ROOM_BYTES: Final = 8
_MAX_ROWS: Final = MAX_BYTES // _ROW_BYTES


class Fault(StrEnum):
    """Why a datagram was not read; a metric label."""

    MAC = "bad_mac"
    FOREIGN = "foreign"  # not ours at all
    VERSION = "version"
    TORN = "torn"  # lengths that do not fit


class Role(IntEnum):
    """What the sending worker does."""

    UNIFIED = 0
    PREFILL = 1
    DECODE = 2


class Sent(msgspec.Struct, frozen=True):
    """Who sent a datagram, and when in the order of its own."""

    name: str  # the worker's URL
    role: Role
    dp_rank: int  # -1: none
    epoch: int
    counter: int
    lost: int  # datagrams that the probe itself gave up, over all its sidecars


class Load(msgspec.Struct, frozen=True):
    """Requests in the worker's queues; `preparing` and `moving` are of prefill/decode disaggregation."""

    running: int = 0
    waiting: int = 0
    preparing: int = 0
    moving: int = 0


class StepRows(msgspec.Struct, frozen=True):
    """One scheduler step (or part of one): parallel columns, a row a request."""

    sent: Sent
    load: Load
    depth: int  # draft tokens a step can accept; 0: not known
    keys: tuple[int, ...]
    rooms: tuple[int, ...]  # empty without disaggregation
    steps: tuple[int, ...]
    accepted: bytes


class Status(msgspec.Struct, frozen=True):
    """How the probe itself is doing."""

    sent: Sent
    aside: bool  # it has stood aside: nothing more comes from there
    text: str  # the engine's version, or why it stood aside


class _Header(NamedTuple):
    magic: bytes
    version: int
    kind: int
    role: int
    flags: int
    dp_rank: int
    depth: int
    rows: int
    name_bytes: int
    epoch: int
    counter: int
    lost: int
    running: int
    waiting: int
    preparing: int
    moving: int


def read(datagram: bytes, key: bytes = b"") -> StepRows | Status | Fault:
    """Read one datagram; with a key its MAC is checked first."""
    if key:
        datagram, mac = datagram[:-MAC_BYTES], datagram[-MAC_BYTES:]
        if not hmac.compare_digest(hmac.digest(key, datagram, "sha256")[:MAC_BYTES], mac):
            return Fault.MAC
    if datagram[:4] != MAGIC:
        return Fault.FOREIGN
    if len(datagram) < _HEADER.size:
        return Fault.TORN
    head = _Header(*_HEADER.unpack_from(datagram))
    if head.version != VERSION:
        return Fault.VERSION
    return _read(datagram, head)


def _read(datagram: bytes, head: _Header) -> StepRows | Status | Fault:
    start = _HEADER.size + head.name_bytes
    if head.role > Role.DECODE or len(datagram) < start:
        return Fault.TORN
    name = datagram[_HEADER.size : start].decode("utf-8", "replace")
    sent = Sent(name, Role(head.role), head.dp_rank, head.epoch, head.counter, head.lost)
    if head.kind == _STATUS:
        return Status(sent, bool(head.flags & _ASIDE), datagram[start:].decode("utf-8", "replace"))
    return _rows(datagram, head, sent, start) if head.kind == _STEPS else Fault.FOREIGN


def _rows(datagram: bytes, head: _Header, sent: Sent, start: int) -> StepRows | Fault:
    rows, rooms = head.rows, bool(head.flags & _ROOMS)
    end = start + rows * (_ROW_BYTES + (_ROOM_BYTES if rooms else 0))
    if not 0 < rows <= _MAX_ROWS or len(datagram) != end:
        return Fault.TORN
    values = _columns(rows, rooms).unpack_from(datagram, start)
    return StepRows(
        sent,
        Load(head.running, head.waiting, head.preparing, head.moving),
        head.depth,
        keys=values[:rows],
        rooms=values[rows : 2 * rows] if rooms else (),
        steps=values[-rows:],
        accepted=datagram[end - rows :],
    )


@lru_cache(maxsize=2 * _MAX_ROWS)
def _columns(rows: int, rooms: bool) -> Struct:
    """Keys, rooms and steps; the counts that follow are bytes already."""
    return Struct(f"<{rows * 2 if rooms else rows}Q{rows}I")
