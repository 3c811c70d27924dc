"""The environment of the migrations works on the connection that the caller hands in, and on no other."""

from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from sqlalchemy.pool import StaticPool

from service.edges.database import alembic_config, migrate


def test_the_callers_own_connection_is_brought_to_head() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)  # in memory: no other connection could see it
    with engine.begin() as connection:
        migrate(connection)
        stands_at = connection.scalar(text("SELECT version_num FROM alembic_version"))
    assert stands_at == ScriptDirectory.from_config(alembic_config()).get_current_head()
    engine.dispose()
