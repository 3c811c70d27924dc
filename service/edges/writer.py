"""The one writer of the store: batches in, rows out, and the database's moods borne.

Failures are of two sorts. The database's (locked, gone, full, another version's): the batch is tried again
with a growing pause and a fresh connection. The batch's own (a row that no database would take): it is
dropped and counted at once. Nothing is tried for ever, or it would stand in the way for ever.
"""

import asyncio
from concurrent.futures import Future
from typing import Any, Final

from sqlalchemy import Table, delete, func, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.config.settings import Capture, Retention
from service.edges.database import file_of, let_go, migrate, writer_engine
from service.edges.metrics import Counting
from service.edges.rows import Rows, Waiting
from service.edges.tables import ATTEMPTS, CASES, INCIDENTS, REPLAYS

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 30.0
TRIES_MAX: Final = 20
"""About eight minutes; the queue behind is long full by then."""
STEP_S: Final = 0.05
"""How soon a pausing writer notices that it is to stop."""
TIDY_EVERY_MS: Final = 60_000
TIDY_ROWS: Final = 500
"""Rows removed in one transaction, so that a large backlog does not hold the lock."""
DAY_MS: Final = 86_400_000


class Order:
    """A deletion by id, or a replay to be noted at its case, waiting for the writer."""

    __slots__ = ("case", "done", "incident", "replay")

    def __init__(self, *, incident: str = "", case: str = "", replay: dict[str, Any] | None = None) -> None:
        self.incident = incident
        self.case = case
        self.replay = replay  # a row of REPLAYS; its case may be gone by now
        self.done: Future[int] = Future()

    def __repr__(self) -> str:
        what = "note" if self.replay else "forget"
        return f"<Order {what} {self.incident or self.case} done={self.done.done()}>"


class Writer:
    """Owns the only connection that writes; used from one loop."""

    def __init__(
        self, url: str, metrics: Counting, *, capture: Capture, salt: bytes, retention: Retention
    ) -> None:
        self._url = url
        self._metrics = metrics
        self._capture: Capture = capture
        self._salt = salt
        self._retention = retention
        self._engine: AsyncEngine | None = None
        self._stopping = False
        self._tidied_ms = 0

    def __repr__(self) -> str:
        return f"<Writer {'open' if self._engine else 'closed'}>"

    def stop(self) -> None:
        """From any thread: no more second tries."""
        self._stopping = True

    async def close(self, *, failed: bool = False) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await let_go(engine, failed=failed)

    async def prepare(self) -> None:
        """Open and migrate before anything is to be written, so that readers find a store."""
        try:
            await self._open()
        except Exception:  # noqa: BLE001 - as in `_tried`; the first batch tries again
            await self._broken()

    async def write(self, batch: list[Waiting]) -> None:
        """Insert one batch, however long the database takes to let us."""
        rows = Rows()
        for waiting in batch:
            self._build(rows, waiting)
        for attempt in range(TRIES_MAX):
            if await self._tried(rows):
                return
            if self._stopping:
                break
            await self._pause(min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S))
        self._metrics.count("cases_dropped", by=len(batch))

    async def obey(self, order: Order) -> None:
        """Carry it out; the order's future gets the rows that went or came, or the database's refusal."""
        try:
            async with (await self._open()).begin() as connection:
                changed = await (_noted if order.replay else _forgotten)(connection, order)
        except Exception as broken:  # noqa: BLE001 - as in `_tried`; who asked is told
            order.done.set_exception(broken)
            await self._broken()
        else:
            order.done.set_result(changed)

    async def tidy(self, now_ms: int) -> None:
        """Remove what is too old or too much; now and then, and a bounded number of rows at once."""
        if self._engine is None or now_ms - self._tidied_ms < TIDY_EVERY_MS:
            return
        limits = ((INCIDENTS, self._retention.incidents), (CASES, self._retention.cases))
        oldest_ms = now_ms - int(self._retention.days * DAY_MS)
        try:
            removed = [await self._trim(table, oldest_ms, most) for table, most in limits]
        except Exception:  # noqa: BLE001 - as in `_tried`
            await self._broken()
            return
        if max(removed) < TIDY_ROWS:
            self._tidied_ms = now_ms

    # --- inside ---

    def _build(self, rows: Rows, waiting: Waiting) -> None:
        cases = len(rows.cases)
        try:
            rows.add(waiting, self._capture, self._salt)
        except Exception:  # noqa: BLE001 - whatever a client's body can hold, its incident is kept
            self._metrics.count("cases", "failed")
            rows.add(Waiting(waiting.at_ms, waiting.incident), self._capture, self._salt)
        if len(rows.cases) == cases:
            self._metrics.count("cases", "skipped")

    async def _tried(self, rows: Rows) -> bool:
        """Whether the batch needs no second try: it is in, or no database would take it."""
        try:
            await self._insert(rows)
        except (IntegrityError, DataError, OverflowError):
            self._metrics.count("cases", "failed", by=len(rows.cases))
            return True
        except Exception:  # noqa: BLE001 - whatever a database can raise, the writer outlives it
            await self._broken()
            return False
        self._metrics.count("cases", "saved", by=len(rows.cases))
        return True

    async def _insert(self, rows: Rows) -> None:
        async with (await self._open()).begin() as connection:
            await connection.execute(insert(INCIDENTS), rows.incidents)
            if rows.attempts:
                await connection.execute(insert(ATTEMPTS), rows.attempts)
            if rows.cases:
                await connection.execute(insert(CASES).on_conflict_do_nothing(), rows.cases)

    async def _open(self) -> AsyncEngine:
        """The engine, migrated; anew where the file has gone from under it."""
        if self._engine is not None and not file_of(self._url).exists():
            await self.close()
        if self._engine is None:
            engine = writer_engine(self._url)
            try:
                async with engine.begin() as connection:
                    await connection.run_sync(migrate)
            except BaseException:
                await let_go(engine, failed=True)
                raise
            self._engine = engine
        return self._engine

    async def _broken(self) -> None:
        """Count it; the next try gets a fresh connection."""
        self._metrics.count("store_errors")
        await self.close(failed=True)

    async def _pause(self, pause_s: float) -> None:
        while pause_s > 0 and not self._stopping:
            await asyncio.sleep(min(STEP_S, pause_s))
            pause_s -= STEP_S

    async def _trim(self, table: Table, oldest_ms: int, most: int) -> int:
        async with (await self._open()).begin() as connection:
            aged = select(table.c.id).where(table.c.at_ms < oldest_ms).limit(TIDY_ROWS)
            removed = await _delete(connection, table, aged)
            held = await connection.scalar(select(func.count()).select_from(table)) or 0
            if held > most:
                surplus = min(held - most, TIDY_ROWS)
                removed += await _delete(
                    connection, table, select(table.c.id).order_by(table.c.at_ms, table.c.id).limit(surplus)
                )
        return removed


async def _forgotten(connection: AsyncConnection, order: Order) -> int:
    table, own_id = (CASES, order.case) if order.case else (INCIDENTS, order.incident)
    return int((await connection.execute(delete(table).where(table.c.id == own_id))).rowcount)


async def _noted(connection: AsyncConnection, order: Order) -> int:
    known = await connection.scalar(select(func.count()).select_from(CASES).where(CASES.c.id == order.case))
    if known:
        await connection.execute(insert(REPLAYS), order.replay)
    return known or 0


async def _delete(connection: AsyncConnection, table: Table, ids: Any) -> int:  # noqa: ANN401 - a subquery
    gone = await connection.execute(delete(table).where(table.c.id.in_(ids)))
    return int(gone.rowcount)
