"""The journal's one table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "entry",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("night", sa.Text(), nullable=False),
        sa.Column("loop", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("trajectory", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("entry_once", "entry", ["night", "loop", "seq"], unique=True)
    op.create_index("entry_in_order", "entry", ["night", "id"])
    told = sa.text("kind IS NOT NULL")
    op.create_index("entry_kind", "entry", ["kind", "id"], sqlite_where=told, postgresql_where=told)
    frame = sa.text("type IN ('NightStarted', 'NightEnded')")
    op.create_index("entry_frame", "entry", ["type", "id"], sqlite_where=frame, postgresql_where=frame)
