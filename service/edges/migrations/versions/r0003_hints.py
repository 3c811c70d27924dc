"""Hints: what may have caused an incident."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("incidents", sa.Column("hints", sa.Text, nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("incidents", "hints")
