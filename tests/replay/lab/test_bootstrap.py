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

SOON = Timeouts(bootstrap_s=0.05)
PATIENT = Timeouts(bootstrap_s=20, waiting_s=20, drain_s=20)


def announce(room: int = 7) -> Announce:
    return Announce(room, "r" * 16, "decode-0", [3, 4], 20)


@asynccontextmanager
async def listening(server: BootstrapServer) -> AsyncIterator[int]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listener:
        yield int(listener.sockets[0].getsockname()[1])


def over(receiver: KVReceiver) -> bool:
    return receiver.settled


async def received(receiver: KVReceiver, waiting_s: float = 20) -> Done:
    await receiver.connect()
    try:
        return await receiver.receive(waiting_s)
    finally:
        if receiver.settled:
            receiver.close()


@pytest.mark.parametrize("prefill_first", [True, False])
async def test_either_half_may_come_first(prefill_first: bool) -> None:
    server = BootstrapServer(PATIENT)

    async def prefill() -> Announce:
        room = server.open(7)
        heard = await server.announcement(room)
        room.settle(Done(7, first_token=42, transfer_bytes=9))
        return heard

    async with listening(server) as port, asyncio.TaskGroup() as tasks:
        receiver = KVReceiver("127.0.0.1", port, announce())
        halves: list[Coroutine[None, None, Announce | Done]] = [prefill(), received(receiver)]
        started = []
        for half in halves if prefill_first else reversed(halves):
            started.append(tasks.create_task(half))
            await asyncio.sleep(0.01)
    results = [task.result() for task in started]
    assert announce() in results
    assert Done(7, 42, 9) in results
    assert len(server) == 0


async def test_an_abort_is_answered_when_the_writer_has_stopped_and_not_before() -> None:
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
        receiver = KVReceiver("127.0.0.1", port, announce())
        receiving = tasks.create_task(received(receiver), name="decode")
        await asyncio.shield(room.announced)
        receiving.cancel()
        await asyncio.wait([receiving])
        assert not over(receiver)
        receiver.abort()
        assert await receiver.last_word() == Failed(7, ABORTED)
        order.append("fence")
        assert over(receiver)
        receiver.close()
    assert order == ["writer stopped", "fence"]


async def test_a_prefill_that_says_nothing_leaves_the_hand_over_open() -> None:
    async def deaf(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hold.wait()
        writer.close()

    hold = asyncio.Event()
    listener = await asyncio.start_server(deaf, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        receiver = KVReceiver("127.0.0.1", port, announce())
        with pytest.raises(KVTransferError, match=r"timed out after 0.1s in KVPoll.WaitingForInput"):
            await received(receiver, waiting_s=0.05)
        assert not over(receiver)
        receiver.abort()
        assert await receiver.last_word(0.05) is None
        assert not over(receiver)
        hold.set()
        assert isinstance(await receiver.last_word(), Failed)
        assert over(receiver)
        receiver.close()


async def test_a_hand_over_that_was_never_announced_is_settled() -> None:
    receiver = KVReceiver("127.0.0.1", 1, announce())
    assert over(receiver)
    with pytest.raises(KVTransferError, match="Could not reach"):
        await receiver.connect()
    assert over(receiver)
    with pytest.raises(KVTransferError, match="not connected"):
        await receiver.last_word()


async def test_prefill_waits_no_longer_than_its_timeout() -> None:
    server = BootstrapServer(SOON)
    with pytest.raises(KVTransferError, match=r"room=7\): Request 7 timed out .* KVPoll.Bootstrapping"):
        await server.announcement(server.open(7))


async def test_failures_name_their_cause() -> None:
    server = BootstrapServer(PATIENT)
    async with listening(server) as port:
        server.open(7).settle(Failed(7, "Prefill bootstrap failed"))
        with pytest.raises(KVTransferError, match="Prefill bootstrap failed"):
            await received(KVReceiver("127.0.0.1", port, announce()))
    for host in ("127.0.0.1", "x" * 300):
        with pytest.raises(KVTransferError, match="Could not reach the bootstrap server"):
            await received(KVReceiver(host, port, announce()))


async def test_a_prefill_that_dies_is_a_lost_connection() -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    listener = await asyncio.start_server(die, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        receiver = KVReceiver("127.0.0.1", port, announce())
        with pytest.raises(KVTransferError, match="Lost connection with prefill instance"):
            await received(receiver)
        assert over(receiver)


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
            await received(KVReceiver("127.0.0.1", port, announce()))


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


@pytest.mark.parametrize("name", ["bootstrap_s", "waiting_s", "drain_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_wait_that_is_none_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Timeouts(**{name: value})
