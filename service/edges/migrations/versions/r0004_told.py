"""Told: what probe and engine said of an attempt: prefill worker, rank, telemetry, words, cached tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("told", sa.Text, nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("attempts", "told")
