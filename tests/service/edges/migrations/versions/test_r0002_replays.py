"""Replays come to a store that has cases, and leave it as it was."""

from pathlib import Path

from alembic import command
from sqlalchemy import create_engine, inspect

from service.edges.database import alembic_config


def test_up_adds_replays_and_down_takes_only_them(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0001")
        before = set(inspect(connection).get_table_names())
        command.upgrade(alembic_config(connection), "0002")
        assert set(inspect(connection).get_table_names()) == before | {"replays"}
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0001")
        assert set(inspect(connection).get_table_names()) == before
    engine.dispose()
