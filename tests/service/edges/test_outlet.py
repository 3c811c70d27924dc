"""The client's end: stepped where that works, in order always, and honest about a slow client."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from service.edges.outlet import HIGH_WATER_BYTES, Message, Outlet, Sending, direct_writer
from service.edges.tasks import Tasks

MODES = pytest.mark.parametrize("sending", [*Sending])


class Server:
    """A `send` that is full when told, and refuses when told."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.room = asyncio.Event()
        self.room.set()
        self.refuses = False
        self.in_task: list[bool] = []

    async def send(self, message: Message) -> None:
        self.in_task.append(asyncio.current_task() is not None)
        if not self.room.is_set():
            await self.room.wait()
        if self.refuses:
            raise RuntimeError("Response content longer than Content-Length")
        self.got.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got)


class Valve:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_blocked(self) -> None:
        self.calls.append("blocked")

    def on_free(self) -> None:
        self.calls.append("free")

    def on_fault(self) -> None:
        self.calls.append("fault")


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    tasks = Tasks()
    yield tasks
    await tasks.cancel()


@MODES
async def test_messages_arrive_in_order(tasks: Tasks, sending: Sending) -> None:
    server, valve = Server(), Valve()
    outlet = Outlet(server.send, valve, tasks, sending)
    outlet.head(200, [(b"a", b"b")])
    for piece in (b"1", b"2", b"3"):
        outlet.body(piece)
    outlet.end(b"4")
    await outlet.flushed()
    assert server.got[0] == {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}
    assert server.body == b"1234"
    assert [message.get("more_body") for message in server.got] == [None, True, True, True, False]
    assert valve.calls == []


async def test_a_stepped_send_is_done_at_once_and_without_a_task(tasks: Tasks) -> None:
    server, done = Server(), asyncio.Event()
    outlet = Outlet(server.send, Valve(), tasks, Sending.STEPPED)

    def in_a_callback() -> None:
        outlet.body(b"x")
        assert server.body == b"x"
        done.set()

    asyncio.get_running_loop().call_soon(in_a_callback)
    await asyncio.wait_for(done.wait(), 50)
    assert server.in_task == [False]
    assert len(tasks) == 0


async def test_a_full_client_closes_the_valve_and_its_reading_opens_it(tasks: Tasks) -> None:
    server, valve = Server(), Valve()
    outlet = Outlet(server.send, valve, tasks, Sending.STEPPED)
    server.room.clear()
    outlet.body(b"first")
    outlet.body(b"second")
    await asyncio.sleep(0.01)
    assert valve.calls == ["blocked"]
    assert repr(outlet) == "<Outlet blocked, 6 bytes in line>"
    server.room.set()
    await outlet.flushed()
    assert server.body == b"firstsecond"
    assert valve.calls == ["blocked", "free"]
    outlet.body(b"third")
    assert server.body == b"firstsecondthird"


async def test_bytes_are_counted_and_not_messages(tasks: Tasks) -> None:
    server, valve = Server(), Valve()
    outlet = Outlet(server.send, valve, tasks, Sending.TASK)
    server.room.clear()
    for _ in range(100):
        outlet.body(b"x")
    assert valve.calls == []
    outlet.body(b"x" * HIGH_WATER_BYTES)
    assert valve.calls == ["blocked"]
    server.room.set()
    await outlet.flushed()
    assert valve.calls == ["blocked", "free"]
    assert outlet.line_bytes == 0


@MODES
async def test_a_refused_message_is_a_fault_and_the_last(tasks: Tasks, sending: Sending) -> None:
    server, valve = Server(), Valve()
    outlet = Outlet(server.send, valve, tasks, sending)
    server.refuses = True
    outlet.body(b"x")
    await asyncio.sleep(0.01)
    outlet.body(b"y")
    await outlet.flushed()
    assert valve.calls == ["fault"]
    assert server.got == []


async def test_a_refusal_after_a_wait_is_a_fault_too(tasks: Tasks) -> None:
    server, valve = Server(), Valve()
    outlet = Outlet(server.send, valve, tasks, Sending.STEPPED)
    server.room.clear()
    outlet.body(b"x")
    outlet.body(b"y")
    server.refuses = True
    server.room.set()
    await outlet.flushed()
    assert valve.calls == ["blocked", "fault"]
    assert outlet.line_bytes == 0


async def test_what_the_open_valve_lets_through_keeps_its_place(tasks: Tasks) -> None:
    server = Server()

    class Refill(Valve):
        def on_free(self) -> None:
            outlet.body(b"3")
            super().on_free()

    outlet = Outlet(server.send, Refill(), tasks, Sending.STEPPED)
    server.room.clear()
    outlet.body(b"1")
    outlet.body(b"2")
    server.room.set()
    await outlet.flushed()
    assert server.body == b"123"


async def test_a_cancelled_wait_reaches_the_server(tasks: Tasks) -> None:
    server, valve = Server(), Valve()
    outlet = Outlet(server.send, valve, tasks, Sending.STEPPED)
    server.room.clear()
    outlet.body(b"x")
    await asyncio.sleep(0)
    await tasks.cancel()
    assert len(tasks) == 0
    assert server.got == []


async def test_only_our_own_servers_send_is_written_past() -> None:
    assert direct_writer(Server().send) is None
