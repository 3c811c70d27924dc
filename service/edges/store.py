"""The store: incidents and cases on their way to the database, by one writer on a thread of its own.

`keep` is called on the data loop and costs an append: it takes no lock, waits for nothing and never raises.
The queue is bounded in number and in bytes; what finds it full is dropped and counted. The writer takes up
to 256 rows or what has come within a second. A database that is locked, missing or broken costs retries
with a growing pause and a reopened connection, never a stream.
"""

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from service.config.settings import Capture
from service.core.events import Incident
from service.edges.case import Kept
from service.edges.metrics import Counting
from service.edges.rows import Waiting, new_id
from service.edges.writer import Order, Writer

QUEUE_MAX: Final = 4096
QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Request bodies waiting for the writer; beyond it incidents are kept without their case."""
BATCH_ROWS: Final = 256
BATCH_S: Final = 1.0
STOP_S: Final = 5.0
"""How long a stopping store may take to write what waits."""


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


class Store:
    """Made by the composition root; `start` before traffic, `stop` after the last stream."""

    def __init__(
        self, writer: Writer, metrics: Counting, *, capture: Capture, clock: Callable[[], int] = now_ms
    ) -> None:
        self._writer = writer
        self._metrics = metrics
        self._capture = capture
        self._clock = clock
        self._queue: deque[Waiting] = deque()
        self._orders: deque[Order] = deque()
        self._queued_bytes = 0  # by the data loop alone
        self._taken_bytes = 0  # by the writer alone
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._main, name="store-writer", daemon=True)

    def __repr__(self) -> str:
        return f"<Store {len(self._queue)} waiting, capture={self._capture}>"

    def __len__(self) -> int:
        """Incidents that wait for the writer."""
        return len(self._queue)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Write what waits, within the time given, and end the thread."""
        self._stopping = True
        self._writer.stop()
        self._ring()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # --- on the data loop ---

    def keep(self, incident: Incident, kept: Kept | None = None) -> None:
        """Keep this incident. Never blocks, never raises."""
        self._metrics.count("incidents", incident.judgement.level.name.lower())
        if len(self._queue) >= QUEUE_MAX:
            self._metrics.count("cases_dropped")
            self._metrics.count("cases", "dropped")
            return
        waiting = Waiting(self._clock(), incident, self._bounded(kept))
        self._queued_bytes += waiting.size_bytes
        self._queue.append(waiting)
        if len(self._queue) == BATCH_ROWS:
            self._ring()

    def _bounded(self, kept: Kept | None) -> Kept | None:
        if kept is None or self._capture == "off":
            return kept.without_text() if kept else None
        if self._queued_bytes - self._taken_bytes + kept.size_bytes > QUEUE_BYTES_MAX:
            self._metrics.count("cases", "dropped")
            return None
        return kept

    # --- from any thread ---

    def forget(self, *, incident: str = "", case: str = "") -> Future[int]:
        """Delete by id, by the one writer; the future tells how many rows went."""
        order = Order(incident=incident, case=case)
        self._orders.append(order)
        self._ring()
        return order.done

    def note_replay(self, case: str, verdict: str, told: dict[str, Any]) -> Future[int]:
        """Keep what came of replaying a case; the future tells 0 where there is no such case."""
        at_ms = self._clock()
        row = {"id": new_id(at_ms), "case_id": case, "at_ms": at_ms, "verdict": verdict, "told": _json(told)}
        order = Order(case=case, replay=row)
        self._orders.append(order)
        self._ring()
        return order.done

    def _ring(self) -> None:
        if self._loop is not None and self._wake is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)

    # --- on the writer's thread ---

    def _main(self) -> None:
        asyncio.run(self._write_until_stopped())

    async def _write_until_stopped(self) -> None:
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        await self._writer.prepare()
        while not self._stopping or self._queue:
            await self._rest()
            await self._flush()
            await self._obey()
            await self._writer.tidy(self._clock())
        await self._obey()
        await self._writer.close()

    async def _rest(self) -> None:
        """Until a batch is full, an order has come, or a second has passed."""
        assert self._wake is not None  # noqa: S101 - set before the first rest
        if not self._stopping and len(self._queue) < BATCH_ROWS and not self._orders:
            try:
                async with asyncio.timeout(BATCH_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
        self._wake.clear()

    async def _flush(self) -> None:
        while batch := self._take():
            await self._writer.write(batch)
            self._metrics.set("store_queue_length", value=len(self._queue))

    async def _obey(self) -> None:
        """An order finds everything written that was kept before it was given."""
        while self._orders:
            order = self._orders.popleft()
            await self._flush()
            await self._writer.obey(order)

    def _take(self) -> list[Waiting]:
        batch = [self._queue.popleft() for _ in range(min(BATCH_ROWS, len(self._queue)))]
        self._taken_bytes += sum(waiting.size_bytes for waiting in batch)
        return batch


def _json(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def new_salt(configured: str | None) -> bytes:
    """The key of captured hashes: the owner's, the same on all replicas, or one that dies with us."""
    return configured.encode() if configured else secrets.token_bytes(32)
