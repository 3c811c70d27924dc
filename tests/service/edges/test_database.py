"""One head, from nothing to the tables in the code, and readers that never make a file."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import OperationalError

from service.edges.database import alembic_config, file_of, migrate, reader_engine, writer_engine
from service.edges.tables import METADATA

pytestmark = pytest.mark.anyio


def url_in(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder / 'deep' / 'specguard.db'}"


def difference(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), METADATA))


def test_the_migrations_have_one_head() -> None:
    assert len(ScriptDirectory.from_config(alembic_config()).get_heads()) == 1


async def test_an_empty_store_is_brought_to_the_tables_in_the_code(tmp_path: Path) -> None:
    engine = writer_engine(url_in(tmp_path))
    async with engine.begin() as connection:
        await connection.run_sync(migrate)
        assert await connection.run_sync(difference) == []
        await connection.run_sync(migrate)  # a second time changes nothing
    await engine.dispose()


async def test_the_writer_works_in_wal_mode_with_foreign_keys(tmp_path: Path) -> None:
    engine = writer_engine(url_in(tmp_path))
    async with engine.connect() as connection:
        assert await connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert await connection.scalar(text("PRAGMA foreign_keys")) == 1
        assert (await connection.scalar(text("PRAGMA busy_timeout")) or 0) > 0
    await engine.dispose()


async def test_a_reader_makes_no_file_and_cannot_write(tmp_path: Path) -> None:
    url = url_in(tmp_path)
    reader = reader_engine(url)
    with pytest.raises(OperationalError):
        async with reader.connect():
            pass
    assert not file_of(url).exists()
    writer = writer_engine(url)
    async with writer.begin() as connection:
        await connection.run_sync(migrate)
    async with reader.connect() as connection:
        assert await connection.run_sync(lambda sync: inspect(sync).has_table("cases"))
        with pytest.raises(OperationalError, match="readonly"):
            await connection.execute(text("DELETE FROM cases"))
    await reader.dispose()
    await writer.dispose()
