"""What ``ralphd status`` loads: only what it needs, so that it answers at once."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "sqlalchemy",
    "alembic",
    "libtmux",
    "psutil",
    "watchdog",
    "apscheduler",
    "tomllib",
    "apprise",
    "starlette",
    "uvicorn",
    "ralphd.edges.journal",
    "ralphd.core.report",
)


def loaded(code: str) -> set[str]:
    """Return the names of all modules that are there after ``code``."""
    text = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_status_loads_nothing_heavy():
    """The verb's module as the command line finds it, with all that it imports."""
    found = loaded("import click\nfrom ralphd.cli.main import main\nmain.get_command(click.Context(main), 'status')")
    assert "ralphd.cli.look" in found
    assert not found.intersection(HEAVY)


def test_the_heavy_ones_would_be_seen():
    """The check itself can fail."""
    assert loaded("import ralphd.edges.journal").intersection(HEAVY)


def test_steering_and_guarding_are_light_too():
    """A person who pauses a loop waits for them."""
    for verb in ("pause", "guard", "logs", "classify"):
        found = loaded(
            f"import click\nfrom ralphd.cli.main import main\nmain.get_command(click.Context(main), {verb!r})"
        )
        assert not found.intersection(set(HEAVY) - {"tomllib"}), verb


LATER = (
    "libtmux",  # when tmux is called
    "apscheduler",  # once the loops run
    "watchdog",  # once the loops run
    "psutil",
    "alembic",  # when the journal has to be migrated
    "anthropic",  # when a model is asked
    "rich",
    "pygments",
    "ralphd.cli.logs",
    "ralphd.cli.wait",
    "ralphd.core.report",
    "ralphd.views.words",
)


def test_a_daemon_takes_a_night_up_before_it_loads_what_that_does_not_need():
    """After the daemon died loops wait for it, on a machine that they keep busy: each 0.1 s of a processor counts."""
    found = loaded("import ralphd.cli.serve")
    assert "ralphd.edges.journal" in found
    assert not found.intersection(LATER)
