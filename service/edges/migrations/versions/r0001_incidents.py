"""Incidents, attempts and cases: the store's first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _judgement() -> list[sa.Column[object]]:
    columns = (("level", 16), ("kind", 32), ("detector", 64))
    return [sa.Column(name, sa.String(size), nullable=False) for name, size in columns]


def upgrade() -> None:
    op.create_table(
        "incidents",
        sa.Column("id", sa.String(24), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("rid", sa.String(128), nullable=False),
        sa.Column("route", sa.String(64), nullable=False),
        sa.Column("policy", sa.String(16), nullable=False),
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        *_judgement(),
        sa.Column("log10_e", sa.Float, nullable=False),
        sa.Column("at_token", sa.Integer),
        sa.Column("onset_token", sa.Integer),
        sa.Column("unit", sa.String(64), nullable=False),
        sa.Column("delivered_bad_tokens", sa.Integer, nullable=False),
        sa.Column("duration_s", sa.Float, nullable=False),
        sa.Column("case_id", sa.String(64)),
        sa.PrimaryKeyConstraint("id", name="pk_incidents"),
    )
    op.create_index("ix_incidents_at_ms", "incidents", ["at_ms"])
    op.create_index("ix_incidents_rid", "incidents", ["rid"])
    op.create_table(
        "attempts",
        sa.Column("incident_id", sa.String(24), nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("rid", sa.String(128), nullable=False),
        sa.Column("worker", sa.String(256), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("ending", sa.String(16), nullable=False),
        *_judgement(),
        sa.Column("log10_e", sa.Float, nullable=False),
        sa.Column("tokens", sa.Integer),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("accept_length", sa.Float),
        sa.Column("findings", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("incident_id", "ordinal", name="pk_attempts"),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incidents.id"], name="fk_attempts_incident_id", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "cases",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("rid", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("capture", sa.String(16), nullable=False),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("bundle", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cases"),
    )
    op.create_index("ix_cases_at_ms", "cases", ["at_ms"])
    op.create_index("ix_cases_rid", "cases", ["rid"])


def downgrade() -> None:
    for table in ("cases", "attempts", "incidents"):
        op.drop_table(table)
