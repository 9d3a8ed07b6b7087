"""A real small night without a key: built in a temporary folder, told while it runs, reported at its end."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import click

from ralphd.cli import here, out
from ralphd.cli.demo_words import Teller
from ralphd.cli.place import Place
from ralphd.cli.reports import make_report
from ralphd.core.errors import JournalError, NothingRunning, RalphdError
from ralphd.demo.repository import build
from ralphd.edges.journal import JournalReader
from ralphd.edges.processes import Identity, alive, identity
from ralphd.views import terminal

LOOK_EVERY_S = 0.5
SILENT_S = 10.0  # who waits is told at least so often that it goes on
GONE_S = 30.0  # the daemon ends itself within a second of its good-bye


@dataclass(kw_only=True)
class Show:
    """The demo's folder and its night. ``daemon`` is who runs it."""

    folder: str
    seconds: int
    started: float = field(default_factory=time.monotonic)
    daemon: Identity | None = None

    @property
    def place(self) -> Place:
        return Place(state=os.path.join(self.folder, "state"))

    @property
    def repository(self) -> str:
        return os.path.join(self.folder, "repository")

    @property
    def command(self) -> str:
        """How a person in another terminal asks about this night, to be copied; a verb follows."""
        ours = os.path.join(os.path.dirname(sys.executable), "ralphd")
        known = shutil.which("ralphd")
        by_name = known is not None and os.path.realpath(known) == os.path.realpath(ours)
        return f"RALPHD_STATE={shlex.quote(self.place.state)} {'ralphd' if by_name else shlex.quote(ours)}"

    def environment(self) -> dict[str, str]:
        """Return ours without what belongs to another ralphd, and with the demo's own state."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RALPHD_")}
        return {**kept, "RALPHD_STATE": self.place.state}


@click.command()
@click.option("--seconds", type=click.IntRange(5, 86_400), default=60, show_default=True, help="How long it runs.")
def demo(*, seconds: int) -> None:
    """Run a real small night that needs no key.

    Four loops of the built-in agent search for a short tour; at the end their report is printed.
    """
    show = Show(folder=os.path.realpath(tempfile.mkdtemp(prefix="ralphd-demo-")), seconds=seconds)
    build(show.repository)
    out.say(f"Four loops look for the shortest tour of 52 cities, for {seconds} s. All of it is in {show.folder}.")
    out.say("Look in from another terminal:")
    out.say(f"  {show.command} attach")
    interrupted = False
    with _interruptible():
        try:
            _begin(show)
            _watch(show)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            _end(show)
    if interrupted and not os.path.exists(show.place.journal()):
        shutil.rmtree(show.folder)
        out.say("Interrupted before the night began: nothing runs, and nothing is left.")
        raise click.exceptions.Exit(out.INTERRUPTED)
    _conclude(show)
    if interrupted:
        raise click.exceptions.Exit(out.INTERRUPTED)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the demo as Ctrl-C does: nothing may run on."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _begin(show: Show) -> None:
    """Start as a person would; what `ralphd start` says of a failure has been shown by itself.

    An interrupt is passed on, and waited for: `ralphd start` takes back what it has begun.
    """
    starting = subprocess.Popen(
        [sys.executable, "-P", "-m", "ralphd", "start", "--for", f"{show.seconds}s"],
        cwd=show.repository,
        env=show.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        process_group=0,  # Ctrl-C reaches it once, through us
    )
    try:
        starting.wait()
    except KeyboardInterrupt:
        with _deaf():
            starting.send_signal(signal.SIGINT)
            starting.wait()
        raise
    _note_daemon(show)
    if starting.returncode:
        if not os.path.exists(show.place.journal()):
            shutil.rmtree(show.folder, ignore_errors=True)  # made a moment ago, by us, and nothing has run in it
        raise click.exceptions.Exit(starting.returncode)


def _note_daemon(show: Show) -> None:
    with contextlib.suppress(RalphdError):
        for reply in here.request(show.place, {"verb": "status"}):
            data = reply.get("data")
            pid = data["daemon"]["pid"] if isinstance(data, dict) else 0
            show.daemon = identity(pid)


def _watch(show: Show) -> None:
    """Tell what happens until the night is over."""
    reader = JournalReader.open(show.place.journal())
    try:
        night = reader.nights()[-1].id
        teller, last, said_at = Teller(), 0, time.monotonic()
        while True:
            over = show.daemon is None or not alive(show.daemon)  # asked first: what it wrote last is then there
            for entry in reader.entries(night, after_id=last):
                last = entry.id
                for line in teller.tell(entry):
                    said_at = time.monotonic()
                    _say(show, line)
            if over:
                return
            if time.monotonic() > said_at + SILENT_S:
                said_at = time.monotonic()
                _say(show, teller.standing())
            time.sleep(LOOK_EVERY_S)
    finally:
        reader.close()


def _say(show: Show, line: str) -> None:
    out.say(f"{time.monotonic() - show.started:4.0f} s  {line}")


def _end(show: Show) -> None:
    """Have the night end, and return when its daemon is gone. A second Ctrl-C doesn't hurry it: nothing may stay."""
    with _deaf():
        if show.daemon is None:
            _note_daemon(show)
        with contextlib.suppress(NothingRunning):
            for reply in here.request(show.place, {"verb": "stop", "loops": [], "now": True}):
                if "progress" in reply:
                    out.hint(f"{reply['progress']} …")
        deadline = time.monotonic() + GONE_S
        while show.daemon is not None and alive(show.daemon) and time.monotonic() < deadline:
            time.sleep(0.05)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _conclude(show: Show) -> None:
    try:
        report = make_report(show.place)
    except (NothingRunning, JournalError) as error:
        raise NothingRunning(f"the demo has nothing to report: {error}; its folder is {show.folder}") from None
    bold = sys.stdout is not None and sys.stdout.isatty()
    click.echo()
    click.echo(terminal.render_report(report, bold=bold, encoding=out.encoding()), nl=False)
    click.echo()
    out.say("Nothing of it runs any more. What it made:")
    out.say(f"  repository  {show.repository}  (its branches: git for-each-ref refs/ralphd)")
    out.say(f"  state       {show.place.state}")
    out.say(f"  ask it      {show.command} report  (or: journal, logs loop-1)")
    out.say(f"  remove it   rm -r {shlex.quote(show.folder)}")
