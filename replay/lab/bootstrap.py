"""The bootstrap channel: decode says where the KV of a room must go, prefill says that it is there.

One loopback TCP connection a request, one JSON object a line, on the prefill worker's bootstrap port:

    decode  -> prefill   announce   room, the decode pool's name and the pages set aside in it
    decode  -> prefill   abort      the request is gone; stop writing
    prefill -> decode    done       every layer is written; the first token
    prefill -> decode    failed     nothing more will be written, and why

`failed` answers an abort too, so it is the fence: decode gives pages to another request only after `done`,
`failed` or the end of the connection (prefill's process is gone, and its writes with it). Where none of
them comes within `drain_s` the pages are given back all the same and the receiver says `drained == False`,
as SGLang 0.5.23 does after 30 s.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

MAX_LINE_BYTES = 1 << 16
"""An announcement of a full context is about 1 KiB."""

MAX_ROOMS = 4096
"""Rooms that one prefill worker keeps at a time, either half of the pair present."""

ABORTED = "Aborted by AbortReq."


class Announce(msgspec.Struct, frozen=True, tag_field="op", tag="announce"):
    """Where the KV of this room must be written."""

    room: int
    rid: str
    pool: str
    pages: list[int]
    prompt_tokens: int


class Abort(msgspec.Struct, frozen=True, tag_field="op", tag="abort"):
    """Stop writing into this room's pages."""

    room: int


class Done(msgspec.Struct, frozen=True, tag_field="op", tag="done"):
    """The KV is complete in the decode pool."""

    room: int
    first_token: int
    transfer_bytes: int
    device_tokens: int = 0
    """Prompt tokens that prefill had cached on the device; `host_tokens`: on the host."""
    host_tokens: int = 0
    taint: str | None = None
    """What is wrong with this KV, as the lab's ledger calls it; nobody but the ledger looks at it."""


class Failed(msgspec.Struct, frozen=True, tag_field="op", tag="failed"):
    """Nothing more will be written for this room."""

    room: int
    reason: str


Reply = Done | Failed
_from_decode = msgspec.json.Decoder(Announce | Abort)
_from_prefill = msgspec.json.Decoder(Done | Failed)


def _line(message: msgspec.Struct) -> bytes:
    return msgspec.json.encode(message) + b"\n"


class KVTransferError(RuntimeError):
    """The KV of a room did not arrive; the text is the engine's own (`reference` in its HTTP 500)."""

    def __init__(self, room: int, reason: str) -> None:
        """Keep the room and why."""
        super().__init__(f"KVTransferError(bootstrap_room={room}): {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long each side waits for the other, in seconds. SGLang's own defaults are 300, 300 and 30."""

    bootstrap_s: float = 10.0
    """Prefill waits for decode's announcement."""
    waiting_s: float = 20.0
    """Decode waits for `done`."""
    drain_s: float = 5.0
    """Decode waits for `failed` after its abort."""


class Room:
    """Both halves of one hand-over inside the prefill worker; whichever half comes first opens it."""

    __slots__ = ("_stop", "announced", "number", "outcome")

    def __init__(self, number: int) -> None:
        """Open it with neither half present."""
        loop = asyncio.get_running_loop()
        self.number = number
        self.announced: asyncio.Future[Announce] = loop.create_future()
        self.outcome: asyncio.Future[Reply] = loop.create_future()
        self._stop: Callable[[], object] | None = None

    def __repr__(self) -> str:
        """Say what has happened."""
        return f"<Room announced={self.announced.done()} settled={self.outcome.done()}>"

    def on_abort(self, stop: Callable[[], object]) -> None:
        """Name what ends the writing; whoever writes must settle the room afterwards."""
        self._stop = stop

    def abort(self) -> None:
        """Stop the writer; with no writer there is nothing to wait for."""
        if self._stop is not None:
            self._stop()
        else:
            self.settle(Failed(self.number, ABORTED))

    def settle(self, reply: Reply) -> None:
        """Say how the hand-over ended; only the first word counts."""
        if not self.outcome.done():
            self.outcome.set_result(reply)


class BootstrapServer:
    """The prefill worker's end."""

    def __init__(self, timeouts: Timeouts) -> None:
        """Start with no room open."""
        self._timeouts = timeouts
        self._rooms: dict[int, Room] = {}

    def __repr__(self) -> str:
        """Count the open rooms."""
        return f"<BootstrapServer {len(self._rooms)} rooms>"

    def __len__(self) -> int:
        """Return how many rooms are open."""
        return len(self._rooms)

    def open(self, number: int) -> Room:
        """Return the room, made now unless the other half made it."""
        room = self._rooms.get(number)
        if room is None:
            if len(self._rooms) >= MAX_ROOMS:
                raise KVTransferError(number, f"{MAX_ROOMS} bootstrap rooms are open")
            room = self._rooms[number] = Room(number)
        return room

    def close(self, room: Room) -> None:
        """Forget the room."""
        self._rooms.pop(room.number, None)

    async def announcement(self, room: Room) -> Announce:
        """Wait for decode's half."""
        limit_s = self._timeouts.bootstrap_s
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.shield(room.announced)
        except TimeoutError:
            reason = f"Request {room.number} timed out after {limit_s:.1f}s in KVPoll.Bootstrapping"
            raise KVTransferError(room.number, reason) from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one decode request's connection; a peer that breaks the protocol just loses it."""
        try:
            await self._exchange(reader, writer)
        except (msgspec.DecodeError, ConnectionError, ValueError, KVTransferError):
            pass  # decode sees the connection end and fails its request by name
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        message = _from_decode.decode(await reader.readline())
        if isinstance(message, Abort):
            return
        room = self.open(message.room)
        try:
            if room.announced.done():
                raise KVTransferError(room.number, "announced twice")
            room.announced.set_result(message)
            async with asyncio.TaskGroup() as tasks:
                listener = tasks.create_task(_hear_abort(reader, room), name=f"bootstrap-{room.number}")
                reply = await asyncio.shield(room.outcome)
                listener.cancel()
            writer.write(_line(reply))
            await writer.drain()
        finally:
            self.close(room)


async def _hear_abort(reader: asyncio.StreamReader, room: Room) -> None:
    """An abort line and a lost peer mean the same: stop writing."""
    with contextlib.suppress(ConnectionError, ValueError):
        await reader.readline()
    room.abort()


class KVReceiver:
    """The decode worker's end of one hand-over."""

    def __init__(self, host: str, port: int, announce: Announce, timeouts: Timeouts) -> None:
        """Prepare; nothing is sent before `receive`."""
        self._address = (host, port)
        self._announce = announce
        self._timeouts = timeouts
        self._writer: asyncio.StreamWriter | None = None
        self.drained = True
        """False once pages had to be given up while prefill may still write."""

    async def receive(self) -> Done:
        """Announce and wait for the KV. Cancelled or late, tell prefill to stop and wait until it has."""
        room = self._announce.room
        host, port = self._address
        try:
            reader, self._writer = await asyncio.open_connection(host, port, limit=MAX_LINE_BYTES)
        except (OSError, ValueError):  # ValueError: a host name that no resolver takes
            raise KVTransferError(room, f"Could not reach the bootstrap server of {host}:{port}") from None
        try:
            return await self._await_done(reader, self._writer)
        finally:
            self._writer.close()

    async def _await_done(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Done:
        room, limit_s = self._announce.room, self._timeouts.waiting_s
        try:
            async with asyncio.timeout(limit_s):
                writer.write(_line(self._announce))
                return self._judge(await _read_line(reader))
        except TimeoutError:
            await self._drain(reader, writer)
            reason = f"Request {room} timed out after {limit_s:.1f}s in KVPoll.WaitingForInput"
            raise KVTransferError(room, reason) from None
        except asyncio.CancelledError:
            await self._drain(reader, writer)
            raise

    def _judge(self, line: bytes) -> Done:
        room = self._announce.room
        if not line:
            host, port = self._address
            raise KVTransferError(
                room, f"Lost connection with prefill instance (bootstrap_addr: {host}:{port})"
            )
        try:
            reply = _from_prefill.decode(line)
        except msgspec.DecodeError:
            raise KVTransferError(room, "The bootstrap port answers, but it is no bootstrap server") from None
        if reply.room != room:
            raise KVTransferError(room, f"Metadata corruption detected - reply of room {reply.room}")
        if isinstance(reply, Failed):
            raise KVTransferError(room, reply.reason)
        return reply

    async def _drain(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wait until prefill has stopped: any line or the end of the connection says so."""
        try:
            async with asyncio.timeout(self._timeouts.drain_s):
                writer.write(_line(Abort(self._announce.room)))
                await _read_line(reader)
        except TimeoutError:
            self.drained = False


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return a line, or nothing where the peer is gone or sends no lines."""
    try:
        return await reader.readline()
    except (ConnectionError, ValueError):
        return b""
