"""Alembic's entry: runs the migrations on the connection that `database.migrate` hands in."""

from alembic import context

from service.edges.tables import METADATA


def run() -> None:
    """Upgrade within one transaction; SQLite alters tables by copying them, hence the batch mode."""
    context.configure(
        connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True
    )
    with context.begin_transaction():
        context.run_migrations()


run()
