"""The change that the next ralphd makes to the journal, and at each of whose steps it can be killed."""

from __future__ import annotations

import os
from pathlib import Path

STEPS = 6
# A change as they come: a table, a column, rewritten rows, an index. It dies where DIE_AT says.
NEXT = """
import os, signal
import sqlalchemy as sa
from alembic import op

revision = "0900"
down_revision = "{newest}"
branch_labels = depends_on = None

def upgrade():
    def step(number):
        if os.environ.get("DIE_AT") == str(number):
            os.kill(os.getpid(), signal.SIGKILL)
    step(1)
    op.create_table("pod", sa.Column("id", sa.Integer(), primary_key=True), sa.Column("name", sa.Text()))
    step(2)
    op.add_column("entry", sa.Column("pod", sa.Text()))
    step(3)
    op.execute("UPDATE entry SET pod = loop")
    step(4)
    op.execute("INSERT INTO pod (name) SELECT DISTINCT loop FROM entry")
    step(5)
    op.create_index("entry_pod", "entry", ["pod"])
    step(6)
"""


def add_pods(migrations: Path) -> None:
    """Add it to a folder of migrations."""
    newest = max(name for name in os.listdir(migrations / "versions") if name.endswith(".py")).partition("_")[0]
    (migrations / "versions" / "0900_pods.py").write_text(NEXT.replace("{newest}", newest))
