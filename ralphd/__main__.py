"""``python -m ralphd`` is the same as ``ralphd``."""

from ralphd.cli.main import run

run()
