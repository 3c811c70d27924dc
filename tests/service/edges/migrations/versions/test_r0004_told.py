"""What was told of attempts comes to a store that has some, of which nothing was; and it leaves again."""

from pathlib import Path

from alembic import command
from sqlalchemy import create_engine, inspect, text

from service.edges.database import alembic_config

OLD = (
    "INSERT INTO attempts (incident_id, ordinal, rid, worker, status, ending, level, kind, detector, log10_e,"
    " steps, findings)"
    " VALUES ('a', 1, 'r', 'w', 200, 'complete', 'corrupt', 'garbled', 'garble', 6.0, 9, '[]')"
)


def test_up_says_that_nothing_was_told_of_old_attempts_and_down_takes_the_column(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0003")
        connection.execute(text(OLD))
        command.upgrade(alembic_config(connection), "0004")
        assert connection.scalar(text("SELECT told FROM attempts")) == "{}"
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0003")
        assert "told" not in {column["name"] for column in inspect(connection).get_columns("attempts")}
        assert connection.scalar(text("SELECT count(*) FROM attempts")) == 1
    engine.dispose()
