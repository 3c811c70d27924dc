"""The bootstrap channel: decode says where the KV of a room must go, prefill says that it is there.

One loopback TCP connection a request, one JSON object a line, on the prefill worker's bootstrap port:

    decode  -> prefill   announce   room, the decode pool's name and the pages set aside in it
    decode  -> prefill   abort      the request is gone; stop writing
    prefill -> decode    done       every layer is written; the first token
    prefill -> decode    failed     nothing more will be written, and why

`failed` answers an abort too, so it is the fence: after `done`, `failed` or the end of the connection
(prefill's process is gone, and its writes with it) no write of this room can come. What decode does until
then is the protocol's business: see `replay.lab.slot` and `replay.lab.handover`.
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

MAX_WAIT_S = 86_400
"""A day: longer is for ever."""

LAST_LOOK_S = 0.001
"""After a timeout the socket is looked at once more."""

ABORTED = "Aborted by AbortReq."


class Announce(msgspec.Struct, frozen=True, tag_field="op", tag="announce"):
    """Where the KV of this room must be written."""

    room: int
    rid: str
    pool: str
    pages: list[int]
    prompt_tokens: int
    segment: str = ""
    """The pool's name for the transfer engine that is to write, and where it begins there."""
    base: int = 0


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
    """Decode holds the pages for prefill's last word after its abort; the deferred protocol only."""

    def __post_init__(self) -> None:
        """Refuse a wait that is none."""
        for name in ("bootstrap_s", "waiting_s", "drain_s"):
            if not 0 < getattr(self, name) <= MAX_WAIT_S:
                raise ValueError(f"{name} {getattr(self, name)} is not between 0 and {MAX_WAIT_S} seconds")


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

    def __init__(self, host: str, port: int, announce: Announce) -> None:
        """Prepare; nothing is sent before `receive`."""
        self._address = (host, port)
        self._announce = announce
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.settled = True
        """False while prefill knows of the pages and has not said its last word."""

    def __repr__(self) -> str:
        """Say whether the hand-over is over."""
        return f"<KVReceiver {'settled' if self.settled else 'open'}>"

    async def connect(self) -> None:
        """Reach the bootstrap server; it learns nothing yet."""
        host, port = self._address
        try:
            self._streams = await asyncio.open_connection(host, port, limit=MAX_LINE_BYTES)
        except (OSError, ValueError):  # ValueError: a host name that no resolver takes
            raise KVTransferError(
                self._announce.room, f"Could not reach the bootstrap server of {host}:{port}"
            ) from None

    async def receive(self, waiting_s: float) -> Done:
        """Announce and wait for the KV. Late or cancelled it leaves the hand-over open: see `settled`."""
        room = self._announce.room
        self._say(self._announce)
        self.settled = False
        word = await self.last_word(waiting_s)
        if word is None:
            raise KVTransferError(
                room, f"Request {room} timed out after {waiting_s:.1f}s in KVPoll.WaitingForInput"
            )
        if isinstance(word, Failed):
            raise KVTransferError(room, word.reason)
        return word

    def abort(self) -> None:
        """Tell prefill to stop; its answer is the fence."""
        self._say(Abort(self._announce.room))

    async def last_word(self, limit_s: float | None = None) -> Reply | None:
        """Wait for prefill's last word, or for the end of its connection; None: neither came in time."""
        if self._streams is None:
            raise KVTransferError(self._announce.room, "not connected")
        line = await _read_line(self._streams[0], limit_s)
        if line is None:  # a late loop has its timers first: a word that is here already counts
            line = await _read_line(self._streams[0], LAST_LOOK_S)
        if line is None:
            return None
        self.settled = True
        return self._judge(line)

    def close(self) -> None:
        """Let the connection go."""
        if self._streams is not None:
            self._streams[1].close()

    def _say(self, message: Announce | Abort) -> None:
        if self._streams is not None:
            self._streams[1].write(_line(message))

    def _judge(self, line: bytes) -> Reply:
        room = self._announce.room
        if not line:
            host, port = self._address
            return Failed(room, f"Lost connection with prefill instance (bootstrap_addr: {host}:{port})")
        try:
            reply = _from_prefill.decode(line)
        except msgspec.DecodeError:
            return Failed(room, "The bootstrap port answers, but it is no bootstrap server")
        if reply.room != room:
            return Failed(room, f"Metadata corruption detected - reply of room {reply.room}")
        return reply


async def _read_line(reader: asyncio.StreamReader, limit_s: float | None) -> bytes | None:
    """Return a line, nothing where the peer is gone or sends no lines, None where neither came in time."""
    try:
        async with asyncio.timeout(limit_s):
            return await reader.readline()
    except TimeoutError:
        return None
    except (ConnectionError, ValueError):
        return b""
