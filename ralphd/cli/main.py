"""The command line: one verb a function, each thin; errors become one line and an exit code here."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from ralphd import __version__
from ralphd.core.errors import RalphdError

# In the order a night meets them, each with the module that holds it: only the one that is called gets imported.
VERBS = {
    "start": "night",
    "status": "look",
    "report": "look",
    "pause": "steer",
    "resume": "steer",
    "restart": "steer",
    "stop": "steer",
}


class Verbs(click.Group):
    """Finds a verb in its module when it is asked for: ``status`` must not wait for the journal's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in VERBS:
            return None
        found = getattr(import_module(f"ralphd.cli.{VERBS[cmd_name]}"), cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ralphd")
def main() -> None:
    """Run coding agents overnight, keep them making verified progress, and report honestly in the morning."""


def run() -> None:
    """Run the command line; what goes wrong is one line on stderr, never a traceback."""
    try:
        main(standalone_mode=False)
    except RalphdError as error:
        fail(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2 if isinstance(error, click.UsageError) else error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        fail("interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left (`ralphd journal | head`)
        sys.exit(0)


def fail(message: str, code: int) -> None:
    click.echo(f"ralphd: {message}", err=True)
    sys.exit(code)
