"""The client's end of an exchange: ASGI `send`, done inside the upstream's read.

uvicorn's `send` suspends only while the client's socket is full. So the coroutine is stepped once, in
place, and is nearly always done by then: no queue, no task, no wake-up a chunk. When it does suspend, the
client is slow: the valve closes (the upstream pauses), a task goes on with the very coroutine that
suspended, and what comes meanwhile waits in line, counted in bytes.

Three ways of sending, the best that the start-up check (`server.py`) finds to work; the same promises:

    DIRECT    a chunk is framed here and written to uvicorn's transport while that takes it; else as STEPPED
    STEPPED   each message is one step of `send`
    TASK      a task from the first message on, for a server whose `send` cannot be stepped

Stepping happens outside any task. Middleware that asks for the current task must not stand in between.
"""

import asyncio
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from enum import Enum, auto
from typing import Any, Final, Protocol

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.edges.headers import Headers
from service.edges.tasks import Tasks

Message = MutableMapping[str, Any]
Send = Callable[[Message], Coroutine[Any, Any, None]]
Receive = Callable[[], Awaitable[Message]]


class Sending(Enum):
    """How messages reach the server."""

    TASK = auto()
    STEPPED = auto()
    DIRECT = auto()


HIGH_WATER_BYTES: Final = 64 * 1024
"""In line before the valve closes where a task does the sending; uvicorn's own mark."""


class Valve(Protocol):
    """Who must know how the client keeps up."""

    def on_blocked(self) -> None: ...

    def on_free(self) -> None: ...

    def on_fault(self) -> None:
        """The server refused a message: nothing more can be sent."""
        ...


class _OpenEnd:
    """The valve of an outlet that is over."""

    def on_blocked(self) -> None: ...

    def on_free(self) -> None: ...

    def on_fault(self) -> None: ...


_OPEN_END: Final[Valve] = _OpenEnd()


class Outlet:
    """One response on its way to one client."""

    __slots__ = (
        "_blocked",
        "_dead",
        "_direct",
        "_line",
        "_send",
        "_steps",
        "_task",
        "_tasks",
        "_valve",
        "line_bytes",
    )

    def __init__(self, send: Send, valve: Valve, tasks: Tasks, sending: Sending) -> None:
        self._send = send
        self._direct = direct_writer(send) if sending is Sending.DIRECT else None
        self._valve = valve
        self._tasks = tasks
        self._steps = sending is not Sending.TASK
        self._line: deque[Message] = deque()
        self._task: asyncio.Task[None] | None = None
        self._blocked = False
        self._dead = False
        self.line_bytes = 0

    def __repr__(self) -> str:
        state = "dead" if self._dead else "blocked" if self._blocked else "open"
        return f"<Outlet {state}, {self.line_bytes} bytes in line>"

    def head(self, status: int, headers: Headers) -> None:
        self._put({"type": "http.response.start", "status": status, "headers": headers})

    def body(self, data: bytes) -> None:
        if self._direct is not None and self._task is None and self._direct(data):
            return
        message = {"type": "http.response.body", "body": data, "more_body": True}
        if self._steps and self._task is None:
            self._step(message)
        else:
            self._put(message)

    def end(self, data: bytes = b"") -> None:
        self._put({"type": "http.response.body", "body": data, "more_body": False})

    async def flushed(self) -> None:
        """Wait until nothing is in line. The caller must notice a client that left in the meantime."""
        while (task := self._task) is not None and not (task.done() or self._dead):
            await asyncio.wait((task,))

    def let_go(self) -> None:
        """The response is over: keep nobody alive, and be kept by nobody."""
        self._valve, self._direct, self._dead = _OPEN_END, None, True

    def _put(self, message: Message) -> None:
        if self._dead:
            return
        if self._task is not None:
            self._queue(message)
        elif self._steps:
            self._step(message)
        else:
            self._queue(message)
            self._task = self._tasks.spawn(self._run_line(), "outlet")

    def _step(self, message: Message) -> None:
        coroutine = self._send(message)
        try:
            waits_for = coroutine.send(None)
        except StopIteration:
            return
        except Exception:  # noqa: BLE001 - whatever the server raised, this response is over
            self._fail()
            return
        self._block()
        self._task = self._tasks.spawn(self._go_on(coroutine, waits_for), "outlet")

    def _queue(self, message: Message) -> None:
        self._line.append(message)
        self.line_bytes += len(message.get("body", b""))
        if self.line_bytes > HIGH_WATER_BYTES:
            self._block()

    def _block(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._valve.on_blocked()

    def _fail(self) -> None:
        self._dead, self._steps, self._direct = True, False, None
        self._line.clear()
        self.line_bytes = 0
        self._valve.on_fault()

    async def _go_on(self, coroutine: Coroutine[Any, Any, None], waits_for: object) -> None:
        try:
            await _resumed(coroutine, waits_for)
        except Exception:  # noqa: BLE001 - as in `_step`
            self._fail()
            return
        await self._run_line()

    async def _run_line(self) -> None:
        try:
            while self._line:
                message = self._line.popleft()
                await self._send(message)
                self.line_bytes -= len(message.get("body", b""))
        except Exception:  # noqa: BLE001 - as in `_step`
            self._fail()
            return
        self._task = None  # before the valve opens: what it lets through may be stepped again
        if self._blocked:
            self._blocked = False
            self._valve.on_free()


def direct_writer(send: Send) -> Callable[[bytes], bool] | None:
    """A function that writes one chunk as this `send` would, and says whether it could; None for a stranger.

    It writes only where `send` itself would do nothing else: head out, chunked, client there, room.
    """
    cycle = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle):
        return None
    flow, write = cycle.flow, cycle.transport.write

    def direct(data: bytes) -> bool:
        if flow.write_paused or cycle.disconnected or cycle.response_complete or not cycle.chunked_encoding:
            return False
        write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    return direct


@types.coroutine
def _resumed(coroutine: Coroutine[Any, Any, None], waits_for: object) -> Generator[object, Any, None]:
    """Go on, inside a task, with a coroutine that was stepped outside and has yielded what it waits for."""
    while True:
        try:
            value: object = yield waits_for
        except BaseException as error:  # noqa: BLE001 - a cancellation is the coroutine's to handle
            failure: BaseException | None = error
        else:
            failure = None
        try:
            waits_for = coroutine.send(value) if failure is None else coroutine.throw(failure)
        except StopIteration:
            return
