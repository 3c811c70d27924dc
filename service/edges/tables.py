"""The store's tables, SQLAlchemy Core. A change here comes with a migration in `migrations/versions`.

An incident is one client request on which a verdict or a suspicion stood, its attempts the generations it
took, a case what is kept to replay it, a replay what came of that. Ids of incidents and attempts sort by
time. No column holds text of a prompt or of an answer; a case's `bundle` holds what the capture mode allows.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)

INCIDENTS = Table(
    "incidents",
    METADATA,
    Column("id", String(24), primary_key=True),
    Column("at_ms", BigInteger, nullable=False),  # since the epoch, UTC
    Column("rid", String(128), nullable=False),
    Column("route", String(64), nullable=False),
    Column("policy", String(16), nullable=False),
    Column("model", String(256), nullable=False),
    Column("outcome", String(32), nullable=False),
    Column("level", String(16), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("detector", String(64), nullable=False),
    Column("log10_e", Float, nullable=False),
    Column("at_token", Integer),
    Column("onset_token", Integer),
    Column("unit", String(64), nullable=False),  # a short hash, never text
    Column("delivered_bad_tokens", Integer, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("case_id", String(64)),
    Column("hints", Text, nullable=False, server_default="[]"),  # JSON list
    Index(None, "at_ms"),
    Index(None, "rid"),
)

ATTEMPTS = Table(
    "attempts",
    METADATA,
    Column("incident_id", String(24), ForeignKey("incidents.id", ondelete="CASCADE"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),  # 1 for the first
    Column("rid", String(128), nullable=False),
    Column("worker", String(256), nullable=False),
    Column("status", Integer, nullable=False),
    Column("ending", String(16), nullable=False),
    Column("level", String(16), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("detector", String(64), nullable=False),
    Column("log10_e", Float, nullable=False),
    Column("tokens", Integer),
    Column("steps", Integer, nullable=False),
    Column("accept_length", Float),
    Column("findings", Text, nullable=False),  # JSON list
    Column("told", Text, nullable=False, server_default="{}"),  # JSON: by probe and engine; see case.told_of
)

CASES = Table(
    "cases",
    METADATA,
    Column("id", String(64), primary_key=True),  # sha256 of the bundle
    Column("at_ms", BigInteger, nullable=False),
    Column("rid", String(128), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("capture", String(16), nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("bundle", LargeBinary, nullable=False),  # JSON, canonical
    Index(None, "at_ms"),
    Index(None, "rid"),
)

REPLAYS = Table(
    "replays",
    METADATA,
    Column("id", String(24), primary_key=True),
    Column("case_id", String(64), ForeignKey("cases.id", ondelete="CASCADE"), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("verdict", String(32), nullable=False),
    Column("told", Text, nullable=False),  # JSON: counts, rates and hashes, no text
    Index(None, "case_id"),
)
