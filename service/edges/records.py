"""What the store holds, read for the admin port: newest first, a page at a time.

Read-only connections of their own; WAL lets them read while the writer writes. Incidents' ids sort by time:
the page after this one is "ids below the last". A case's id is its content's hash: there a page goes on after
time and id together (`cursor_of`), and neither rows of one millisecond nor rows that come meanwhile are lost
or told twice.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Select, Table, or_, select, tuple_
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from service.edges.case import text_free
from service.edges.database import file_of, let_go, reader_engine
from service.edges.rid import kept_rid
from service.edges.tables import ATTEMPTS, CASES, INCIDENTS, REPLAYS

FILTERS: Final = ("kind", "outcome", "policy", "route", "detector", "level", "rid", "model")
CASE_FILTERS: Final = ("kind", "rid", "capture")
CURSOR: Final = r"^[0-9]{1,16}-[0-9a-f]{1,64}$"
"""Time and id of the last case of a page."""


REPLAYS_MAX: Final = 100
LAST_REPLAY: Final = (
    select(REPLAYS.c.verdict)
    .where(REPLAYS.c.case_id == CASES.c.id)
    .order_by(REPLAYS.c.id.desc())
    .limit(1)
    .scalar_subquery()
    .label("replay")
)


class StoreAwayError(Exception):
    """Guilty: ours. The store cannot be read now; the streams do not care."""


class Records:
    """Used from one loop; the engine is made on first use."""

    def __init__(self, url: str, salt: bytes = b"") -> None:
        self._url = url
        self._salt = salt  # as the writer's: an id that was kept as a hash is found by the id
        self._engine: AsyncEngine | None = None

    def __repr__(self) -> str:
        return f"<Records {'open' if self._engine else 'closed'}>"

    async def close(self, *, failed: bool = False) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await let_go(engine, failed=failed)

    async def incidents(
        self, wanted: Mapping[str, str | None], *, before: str = "", since_ms: int = 0, limit: int = 50
    ) -> list[dict[str, Any]]:
        """Incidents with their attempts."""
        query = self._page(INCIDENTS, wanted, FILTERS, before, limit).where(INCIDENTS.c.at_ms >= since_ms)
        return await self._with_attempts(query.order_by(INCIDENTS.c.id.desc()))

    async def incident(self, own_id: str) -> dict[str, Any] | None:
        found = await self._with_attempts(select(INCIDENTS).where(INCIDENTS.c.id == own_id))
        return found[0] if found else None

    async def _with_attempts(self, query: Select[Any]) -> list[dict[str, Any]]:
        found = {row["id"]: _incident(row) | {"attempts": []} for row in await self._rows(query)}
        theirs = select(ATTEMPTS).where(ATTEMPTS.c.incident_id.in_(found)).order_by(ATTEMPTS.c.ordinal)
        for row in await self._rows(theirs) if found else ():
            found[row.pop("incident_id")]["attempts"].append(_attempt(row))
        return list(found.values())

    async def cases(
        self, wanted: Mapping[str, str | None], *, before: str = "", limit: int = 50
    ) -> list[dict[str, Any]]:
        """Cases without their bundles, with their last replay's verdict; `before` is a row's `cursor_of`."""
        query = self._page(CASES, wanted, CASE_FILTERS, "", limit)
        if before:
            at_ms, _, own_id = before.partition("-")
            query = query.where(tuple_(CASES.c.at_ms, CASES.c.id) < (int(at_ms), own_id))
        brief = query.with_only_columns(
            *(column for column in CASES.c if column is not CASES.c.bundle), LAST_REPLAY
        )
        ordered = brief.order_by(CASES.c.at_ms.desc(), CASES.c.id.desc())
        return [_stamped(row) for row in await self._rows(ordered)]

    async def replays(self, case: str) -> list[dict[str, Any]]:
        """What came of replaying a case, newest first."""
        query = (
            select(REPLAYS).where(REPLAYS.c.case_id == case).order_by(REPLAYS.c.id.desc()).limit(REPLAYS_MAX)
        )
        return [_replay(row) for row in await self._rows(query)]

    async def bundle(self, own_id: str, *, without_text: bool = False) -> bytes | None:
        """A case as it was written, or what of it is no text."""
        found = await self._rows(select(CASES.c.bundle).where(CASES.c.id == own_id))
        if not found:
            return None
        bundle: bytes = found[0]["bundle"]
        return text_free(bundle, self._salt) if without_text else bundle

    def _page(
        self, table: Table, wanted: Mapping[str, str | None], known: tuple[str, ...], before: str, limit: int
    ) -> Select[Any]:
        query = select(table).limit(limit)
        for key in known:
            if value := wanted.get(key):
                named = self._of_request(table, value) if key == "rid" else table.c[key] == value
                query = query.where(named)
        return query.where(table.c.id < before) if before else query

    def _of_request(self, table: Table, rid: str) -> ColumnElement[bool]:
        """By the request's id or that of any attempt: what a client sees is the last attempt's."""
        rid = kept_rid(rid, self._salt)
        attempted = select(ATTEMPTS.c.incident_id).where(ATTEMPTS.c.rid == rid)
        if table is CASES:
            attempted = select(INCIDENTS.c.case_id).where(INCIDENTS.c.id.in_(attempted))
        return or_(table.c.rid == rid, table.c.id.in_(attempted))

    async def _rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        if not file_of(self._url).exists():
            await self.close()
            raise StoreAwayError("the store cannot be read now")
        try:
            if self._engine is None:
                self._engine = reader_engine(self._url)
            async with self._engine.connect() as connection:
                return [dict(row) for row in (await connection.execute(query)).mappings()]
        except (SQLAlchemyError, OSError):
            await self.close(failed=True)
            raise StoreAwayError("the store cannot be read now") from None


def cursor_of(case: Mapping[str, Any]) -> str:
    """Where the page after this case goes on."""
    return f"{case['at_ms']}-{case['id']}"


def _stamped(row: dict[str, Any]) -> dict[str, Any]:
    at = datetime.fromtimestamp(row["at_ms"] / 1000, UTC).isoformat(timespec="milliseconds")
    return {"at": at, **row}


def _replay(row: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.json.decode(row["told"])
    return _stamped({key: row[key] for key in ("id", "at_ms", "verdict")}) | told


def _incident(row: dict[str, Any]) -> dict[str, Any]:
    return _stamped(row) | {"hints": msgspec.json.decode(row["hints"])}


def _attempt(row: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.json.decode(row["told"])
    kept = {key: value for key, value in row.items() if key != "told"}
    return kept | {"findings": msgspec.json.decode(row["findings"])} | told
