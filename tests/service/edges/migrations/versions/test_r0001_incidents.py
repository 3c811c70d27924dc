"""The first migration goes both ways."""

from pathlib import Path

from alembic import command
from sqlalchemy import create_engine, inspect

from service.edges.database import alembic_config


def test_up_makes_the_three_tables_and_down_removes_them(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.begin() as connection:
        config = alembic_config(connection)
        command.upgrade(config, "0001")
        assert set(inspect(connection).get_table_names()) == {
            "alembic_version",
            "attempts",
            "cases",
            "incidents",
        }
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()
