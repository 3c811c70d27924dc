"""Replays: what came of replaying a case."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "replays",
        sa.Column("id", sa.String(24), nullable=False),
        sa.Column("case_id", sa.String(64), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("told", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_replays"),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name="fk_replays_case_id", ondelete="CASCADE"),
    )
    op.create_index("ix_replays_case_id", "replays", ["case_id"])


def downgrade() -> None:
    op.drop_table("replays")
