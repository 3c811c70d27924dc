"""The hand-over: either half first, abort answered by a fence, each way to fail named."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

import pytest

from replay.lab.bootstrap import (
    ABORTED,
    Announce,
    BootstrapServer,
    Done,
    Failed,
    KVReceiver,
    KVTransferError,
    Room,
    Timeouts,
)

SOON = Timeouts(bootstrap_s=0.05, waiting_s=0.05, drain_s=0.05)
PATIENT = Timeouts(bootstrap_s=20, waiting_s=20, drain_s=20)


def announce(room: int = 7) -> Announce:
    return Announce(room, "r" * 16, "decode-0", [3, 4], 20)


@asynccontextmanager
async def listening(server: BootstrapServer) -> AsyncIterator[int]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listener:
        yield int(listener.sockets[0].getsockname()[1])


@pytest.mark.parametrize("prefill_first", [True, False])
async def test_either_half_may_come_first(prefill_first: bool) -> None:
    server = BootstrapServer(PATIENT)

    async def prefill() -> Announce:
        room = server.open(7)
        heard = await server.announcement(room)
        room.settle(Done(7, first_token=42, transfer_bytes=9))
        return heard

    async with listening(server) as port, asyncio.TaskGroup() as tasks:
        receiver = KVReceiver("127.0.0.1", port, announce(), PATIENT)
        halves: list[Coroutine[None, None, Announce | Done]] = [prefill(), receiver.receive()]
        started = []
        for half in halves if prefill_first else reversed(halves):
            started.append(tasks.create_task(half))
            await asyncio.sleep(0.01)
    results = [task.result() for task in started]
    assert announce() in results
    assert Done(7, 42, 9) in results
    assert len(server) == 0


async def test_a_cancelled_receiver_waits_until_the_writer_has_stopped() -> None:
    server, order = BootstrapServer(PATIENT), list[str]()

    async def prefill(room: Room) -> None:
        await server.announcement(room)
        stop = asyncio.Event()
        room.on_abort(stop.set)
        await stop.wait()
        order.append("writer stopped")
        room.settle(Failed(7, ABORTED))

    async with listening(server) as port, asyncio.TaskGroup() as tasks:
        room = server.open(7)
        tasks.create_task(prefill(room), name="prefill")
        receiver = KVReceiver("127.0.0.1", port, announce(), PATIENT)
        receiving = tasks.create_task(receiver.receive(), name="decode")
        await asyncio.shield(room.announced)
        receiving.cancel()
        await asyncio.wait([receiving])
        order.append("pages free")
    assert receiving.cancelled()
    assert receiver.drained
    assert order == ["writer stopped", "pages free"]


async def test_without_a_fence_the_receiver_says_that_it_is_not_drained() -> None:
    async def deaf(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hold.wait()
        writer.close()

    hold = asyncio.Event()
    listener = await asyncio.start_server(deaf, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        receiver = KVReceiver("127.0.0.1", port, announce(), SOON)
        with pytest.raises(KVTransferError, match=r"timed out after 0.1s in KVPoll.WaitingForInput"):
            await receiver.receive()
        assert not receiver.drained
        hold.set()


async def test_prefill_waits_no_longer_than_its_timeout() -> None:
    server = BootstrapServer(SOON)
    with pytest.raises(KVTransferError, match=r"room=7\): Request 7 timed out .* KVPoll.Bootstrapping"):
        await server.announcement(server.open(7))


async def test_failures_name_their_cause() -> None:
    server = BootstrapServer(PATIENT)
    async with listening(server) as port:
        server.open(7).settle(Failed(7, "Prefill bootstrap failed"))
        with pytest.raises(KVTransferError, match="Prefill bootstrap failed"):
            await KVReceiver("127.0.0.1", port, announce(), PATIENT).receive()
    for host in ("127.0.0.1", "x" * 300):
        with pytest.raises(KVTransferError, match="Could not reach the bootstrap server"):
            await KVReceiver(host, port, announce(), PATIENT).receive()


async def test_a_prefill_that_dies_is_a_lost_connection() -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    listener = await asyncio.start_server(die, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        receiver = KVReceiver("127.0.0.1", port, announce(), PATIENT)
        with pytest.raises(KVTransferError, match="Lost connection with prefill instance"):
            await receiver.receive()
        assert receiver.drained


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "it is no bootstrap server"),
        (b'{"op":"done","room":8,"first_token":1,"transfer_bytes":1}\n', "reply of room 8"),
        (b"x" * 200_000, "Lost connection"),
        (b'{"op":"failed","room":7,"reason":"why"}\n', r"room=7\): why"),
    ],
)
async def test_a_port_that_is_no_bootstrap_server_fails_the_request_only(answer: bytes, reason: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    listener = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(KVTransferError, match=reason):
            await KVReceiver("127.0.0.1", port, announce(), PATIENT).receive()


@pytest.mark.parametrize(
    "line", [b"not json\n", b'{"op":"done","room":1}\n', b"\n", b'{"op":"abort","room":3}\n']
)
async def test_a_peer_that_breaks_the_protocol_loses_its_connection(line: bytes) -> None:
    server = BootstrapServer(PATIENT)
    async with listening(server) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(line)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    assert len(server) == 0
