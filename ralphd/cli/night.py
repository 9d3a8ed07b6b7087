"""The verbs that begin and end a night."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import click

from ralphd.cli import here, out
from ralphd.cli.place import Place
from ralphd.cli.settings import Settings, found_from
from ralphd.core.errors import NothingRunning, UsageError
from ralphd.edges.ownership import state_folder

GONE_S = 30.0  # the daemon ends itself within a second of its good-bye

DOMAIN = click.option("--config", "config", metavar="FILE", help="Use this ralphd.toml.")


@click.command(short_help="Begin a night here, or take up the open one.")
@DOMAIN
@click.option("--width", type=click.IntRange(1, 4096), help="Loops at once.")
@click.option("--for", "for_", metavar="DURATION", default="", help="End after this long: 8h, 10m.")
@click.option("--until", metavar="HH:MM", default="", help="End at this local time: 07:00.")
@click.option(
    "--with-uncommitted", is_flag=True, help="Start from the checkout as it is, uncommitted changes included."
)
@click.option("--foreground", is_flag=True, help="Stay in the foreground instead of leaving a daemon behind.")
@click.option("--service", is_flag=True, help="Begin the night and leave it to the installed service.")
@click.option("--only-open", is_flag=True, help="Take up the open night; without one leave at once.")
@click.option("--only-scheduled", is_flag=True, help="Begin no night now: wait for the next that night.schedule has.")
@click.option("--to-end", is_flag=True, hidden=True)
@click.option("--word", type=int, hidden=True, default=-1)
def start(
    config: str,
    width: int | None,
    for_: str,
    until: str,
    *,
    with_uncommitted: bool,
    foreground: bool,
    service: bool,
    only_open: bool,
    only_scheduled: bool,
    to_end: bool,
    word: int,
) -> None:
    """Begin a night in this repository (or take an open one up again) and return once its loops run."""
    if for_ and until:
        raise UsageError("--for and --until exclude each other")
    if service and (foreground or only_open or only_scheduled):
        raise UsageError("--service excludes --foreground, --only-open and --only-scheduled")
    if only_open and only_scheduled:
        raise UsageError("--only-open and --only-scheduled exclude each other")
    if only_open and not foreground and word < 0:
        raise UsageError("--only-open is for a service: it goes with --foreground")
    found = found_from(os.getcwd(), config or "")
    settings = Settings(folder=found.folder, path=found.path, named=found.named, width=width, for_=for_, until=until)
    if only_scheduled and not settings.read().night.schedule:
        raise UsageError(f'{found.path} has no night.schedule; write for example schedule = "0 22 * * *" below [night]')
    if service:
        refuse_mistakes(settings)
        sys.exit(_leave_to_systemd(settings, with_uncommitted=with_uncommitted))
    if word < 0 and not foreground:
        with _noting_interrupts() as interrupts:
            sys.exit(_launch(settings, interrupts))
    if word < 0 and not only_open:
        refuse_mistakes(settings)
    where = here.place(make=True)
    gc.disable()  # what is loaded stays: to look through it again and again costs a tenth of a start
    from ralphd.cli import serve  # noqa: PLC0415  # the command that only launches must not load the daemon too

    gc.freeze()
    gc.enable()
    speak = serve.Word(write=_show) if word < 0 else serve.through(word)
    when = serve.When.ONLY_OPEN if only_open else serve.When.ONLY_SCHEDULED if only_scheduled else serve.When.NOW
    code = serve.serve(where, settings, os.environ, speak, with_uncommitted=with_uncommitted, when=when, to_end=to_end)
    sys.exit(code)


def _leave_to_systemd(settings: Settings, *, with_uncommitted: bool) -> int:
    from ralphd.cli.service import hand_over  # noqa: PLC0415  # needs the journal, which no other start does here

    return hand_over(settings, lambda text: _show({"progress": text}), with_uncommitted=with_uncommitted)


def refuse_mistakes(settings: Settings) -> None:
    """Tell a mistake before a state folder is made for it. Where there were nights the daemon checks, by itself."""
    config = settings.read()
    if os.path.isdir(os.path.join(state_folder(os.environ), "nights")):
        return  # perhaps one of them is open, and has its own settings
    from ralphd.cli import preflight  # noqa: PLC0415  # not needed for most starts, which shall be quick
    from ralphd.edges.tmux import Tmux  # noqa: PLC0415

    Tmux("", environ=os.environ).check()
    preflight.check_environment(config.agent, os.environ)
    preflight.check_tasks(config, settings.folder, os.environ.get("PATH", os.defpath))
    preflight.find_program(config.agent, settings.folder, os.environ)


def _launch(settings: Settings, interrupts: list[int]) -> int:
    """Leave a daemon behind whose loops run. Returns the exit code.

    Ctrl-C meanwhile ends the night that was being begun, as soon as it can be asked to: nothing runs on unseen.
    """
    refuse_mistakes(settings)
    if interrupts:
        return out.INTERRUPTED
    where = here.place(make=True)
    daemon, told = _begin(where, sys.argv[1:])
    code = told.get("code", 0)
    if "ready" not in told or not interrupts:
        return code if isinstance(code, int) else 1
    if told.get("adopted"):
        click.echo("interrupted; the night had been running, and runs on; `ralphd stop` ends it", err=True)
    else:
        click.echo("interrupted: ending the night that was just begun", err=True)
        _take_back(where, daemon)
    return out.INTERRUPTED


def take_up(where: Place) -> int:
    """Leave a daemon behind for the open night, so that it can be asked to end it. Returns the exit code."""
    _, told = _begin(where, ["start", "--only-open", "--to-end"], lambda told: None if "ready" in told else _show(told))
    code = told.get("code", 0)
    return code if isinstance(code, int) else 1


def _begin(
    where: Place, arguments: list[str], show: Callable[[dict[str, object]], None] | None = None
) -> tuple[subprocess.Popen[bytes], dict[str, object]]:
    """Return the daemon and its last word: that the loops run, or why not."""
    show = show or _show
    reading, writing = os.pipe()
    with open(where.log, "ab", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as log:
        daemon = subprocess.Popen(
            [sys.executable, "-P", "-m", "ralphd", *arguments, "--word", str(writing)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(writing,),
            start_new_session=True,
        )
    os.close(writing)
    with open(reading, "rb") as words:
        for line in words:
            told: dict[str, object] = json.loads(line)
            show(told)
            if "ready" in told or "error" in told:
                return daemon, told
    click.echo(f"ralphd: the daemon went away (exit status {daemon.wait()}); {where.log} says more", err=True)
    return daemon, {"code": 1}


def _take_back(where: Place, daemon: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(NothingRunning):
        for _ in here.request(where, {"verb": "stop", "loops": [], "now": True}):
            pass
    with contextlib.suppress(subprocess.TimeoutExpired):
        daemon.wait(GONE_S)


@contextlib.contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    """Note the signals that mean "enough" instead of dying of them half-way."""
    noted: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda got, _frame: noted.append(got)) for number in numbers]
    try:
        yield noted
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _show(told: dict[str, object]) -> None:
    if "error" in told:
        click.echo(f"ralphd: {told['error']}", err=True)
    elif "ready" in told:
        click.echo(told["ready"])
        click.echo("look in: ralphd status, ralphd attach; end it: ralphd stop")
    else:
        click.echo(told["progress"], err=True)
