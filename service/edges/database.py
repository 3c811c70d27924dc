"""The database behind the store: engines, pragmas, migrations. SQLite in WAL mode, so readers never block.

`busy_timeout` covers another process in its write; beyond it the writer backs off and tries again.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

MIGRATIONS: Final = Path(__file__).parent / "migrations"
BUSY_MS: Final = 2000
"""How long SQLite itself waits for another's lock."""
WRITER_PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",  # with WAL: a crash may lose the last second, never the file
    "PRAGMA foreign_keys=ON",
)


SETTLE_S: Final = 0.05
"""After a connection failed, aiosqlite's thread reports once more to the loop, which must still be there."""


async def let_go(engine: AsyncEngine, *, failed: bool) -> None:
    """Close every connection, and wait for the thread of one that failed."""
    await engine.dispose()
    if failed:
        await asyncio.sleep(SETTLE_S)


def file_of(url: str) -> Path:
    """Where a sqlite URL points."""
    return Path(make_url(url).database or "")


def writer_engine(url: str) -> AsyncEngine:
    """One connection; makes the folder, and the file on first use."""
    file_of(url).parent.mkdir(parents=True, exist_ok=True)
    engine = create_async_engine(url, pool_size=1, max_overflow=0)
    _on_connect(engine, WRITER_PRAGMAS)
    return engine


def reader_engine(url: str) -> AsyncEngine:
    """Read-only: a store that is not there is an error, not an empty new one."""
    read_only = f"sqlite+aiosqlite:///file:{file_of(url)}?mode=ro&uri=true"
    engine = create_async_engine(read_only, pool_size=2, max_overflow=0)
    _on_connect(engine, ())
    return engine


def _on_connect(engine: AsyncEngine, pragmas: tuple[str, ...]) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def prepare(raw: Any, _: Any) -> None:  # noqa: ANN401 - the DBAPI's own connection and pool record
        cursor = raw.cursor()
        for pragma in (f"PRAGMA busy_timeout={BUSY_MS}", *pragmas):
            cursor.execute(pragma)
        cursor.close()


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic without an ini file: the migrations lie inside the package."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def migrate(connection: Connection) -> None:
    """Bring the store to head; run through `AsyncConnection.run_sync`."""
    command.upgrade(alembic_config(connection), "head")
