"""A checksum of each row: SQLite's own check doesn't notice a flipped bit in a text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("entry", sa.Column("checksum", sa.BigInteger(), nullable=True))
