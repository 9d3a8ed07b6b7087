"""The command line: one verb a function, each thin; errors become one line and an exit code here."""

from __future__ import annotations

import sys

import click

from ralphd import __version__
from ralphd.cli import look, night, steer
from ralphd.core.errors import RalphdError


class Verbs(click.Group):
    """Lists the verbs in the order a night meets them, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ralphd")
def main() -> None:
    """Run coding agents overnight, keep them making verified progress, and report honestly in the morning."""


for verb in (*night.VERBS, *look.VERBS, *steer.VERBS):
    main.add_command(verb)


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
