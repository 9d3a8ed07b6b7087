"""The command line: one verb a function, each thin; errors become one line and an exit code here."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from ralphd import __version__
from ralphd.cli import out
from ralphd.core.errors import RalphdError

# In the order a night meets them, each with the module that holds it: only the one that is called gets imported.
VERBS = {
    "init": "setup",
    "doctor": "doctor",
    "demo": "demo",
    "start": "night",
    "status": "look",
    "top": "top",
    "attach": "attach",
    "logs": "logs",
    "pause": "steer",
    "resume": "steer",
    "repair": "steer",
    "restart": "steer",
    "scale": "steer",
    "stop": "steer",
    "report": "look",
    "take": "take",
    "journal": "journal",
    "service": "service",
    "web": "web",
    "notify": "notify",
    "guard": "guard",
    "classify": "classify",
}

BEGIN = ("doctor", "demo", "start")  # what must say first when no night can run on this machine


class Verbs(click.Group):
    """Finds a verb in its module when it is asked for: ``status`` must not wait for the journal's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in VERBS:
            return None
        found = getattr(import_module(f"ralphd.cli.{VERBS[cmd_name]}"), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in BEGIN:
            from ralphd.edges import machine  # noqa: PLC0415  # only for these: the others must be quick

            machine.check()
        return super().resolve_command(ctx, args)


EXIT_STATUS = (
    "Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 3 no daemon, night or loop of that name, "
    "75 another daemon owns the state folder."
)


@click.group(
    cls=Verbs, epilog=EXIT_STATUS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="ralphd")
def main() -> None:
    """Run coding agents overnight, keep them making verified progress, and report honestly in the morning."""


def run() -> None:
    """Run the command line; what goes wrong is one line on stderr, never a traceback."""
    _speak_utf8()
    out.be_lenient()
    try:
        code = _invoke()
    except RalphdError as error:
        code = _tell(str(error), error.exit_code)
    except click.UsageError as error:
        error.show()
        code = 2
    except click.ClickException as error:
        code = _tell(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _tell("interrupted", out.INTERRUPTED)
    except BrokenPipeError:
        code = _nobody_reads()
    except OSError as error:
        code = _tell(_trouble(error), 1)
    except Exception as error:  # the loop boundary: there is no journal to write to here
        if "RALPHD_TRACEBACK" in os.environ:
            raise
        what = f"{type(error).__name__}: {error}"
        code = _tell(f"this should not have happened: {what} (RALPHD_TRACEBACK=1 shows where)", 1)
    sys.exit(code)


def _speak_utf8() -> None:
    """Begin again where the locale has other letters: git and the kernel want the bytes that names really have."""
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 -- ourselves, with our arguments


def _invoke() -> int:
    """Do what ``main()`` does, but leave a reader that went away to us, and call us ralphd however we were started."""
    try:
        with main.make_context("ralphd", sys.argv[1:]) as context:
            main.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0


def _tell(message: str, code: int) -> int:
    out.hint(f"ralphd: {message}")
    return code


def _trouble(error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is None:  # os.getcwd
        return "the folder you are in is gone; cd to one that exists"
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"


def _nobody_reads() -> int:
    """End well: the reader of our output left (``ralphd journal | head``), so it has what it wanted."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter complains when it flushes at its end
    return 0
