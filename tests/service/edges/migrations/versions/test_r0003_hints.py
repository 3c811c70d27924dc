"""Hints come to a store that has incidents, which then have none, and leave it as it was."""

from pathlib import Path

from alembic import command
from sqlalchemy import create_engine, inspect, text

from service.edges.database import alembic_config

OLD = (
    "INSERT INTO incidents (id, at_ms, rid, route, policy, model, outcome, level, kind, detector, log10_e,"
    " unit, delivered_bad_tokens, duration_s) VALUES ('a', 1, 'r', 'd', 'observe', 'm', 'marked', 'corrupt',"
    " 'garbled', 'garble', 6.0, '', 0, 1.0)"
)


def test_up_gives_old_incidents_no_hints_and_down_takes_the_column(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0002")
        connection.execute(text(OLD))
        command.upgrade(alembic_config(connection), "0003")
        assert connection.scalar(text("SELECT hints FROM incidents")) == "[]"
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0002")
        assert "hints" not in {column["name"] for column in inspect(connection).get_columns("incidents")}
        assert connection.scalar(text("SELECT count(*) FROM incidents")) == 1
    engine.dispose()
