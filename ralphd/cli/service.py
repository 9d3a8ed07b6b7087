"""Run under systemd: the daemon and the tmux server as two units of the user's own manager."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import click

from ralphd import __version__
from ralphd.cli import here, out, settings, shipped
from ralphd.cli.out import JSON
from ralphd.cli.place import Place
from ralphd.cli.settings import Settings
from ralphd.core.config import Config
from ralphd.core.errors import EdgeError, NothingRunning, UsageError
from ralphd.core.status import iso
from ralphd.edges import units
from ralphd.edges.ownership import own
from ralphd.edges.tmux import clean_environment
from ralphd.edges.tmux_socket import socket_path
from ralphd.edges.units import Manager

DAEMON, TMUX = "ralphd.service", "ralphd-tmux.service"
UNITS = (DAEMON, TMUX)
# A service manager's own PATH lacks what a shell's profile adds, and agent CLIs like to live there.
PASSED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
START_TIMEOUT_S = 660.0  # TimeoutStartSec= of the daemon's unit and a little


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the units are filled in for. ``config`` may be empty: then the night's own settings are all there is."""

    environ: Mapping[str, str]
    state: str
    folder: str
    config: str

    def texts(self) -> dict[str, str]:
        """Return each unit's text. UsageError for a name that can't be written into a unit."""
        start = [
            sys.executable,
            "-P",
            "-m",
            "ralphd",
            "start",
            "--foreground",
            "--only-open",
        ]  # -P: not from the folder
        passed = {name: self.environ[name] for name in PASSED if name in self.environ}
        daemon = {
            "folder": units.path(self.folder),
            "environment": units.words(_settings({**passed, "RALPHD_STATE": self.state})),
            "secrets": units.path(secrets_file(self.environ)),
            "start": units.command([*start, "--config", self.config] if self.config else start),
        }
        return {DAEMON: _template(DAEMON).format_map(daemon), TMUX: _template(TMUX).format_map({"start": self._tmux()})}

    def _tmux(self) -> str:
        program = shutil.which("tmux", path=self.environ.get("PATH", os.defpath))
        if program is None:
            raise UsageError("there is no tmux on PATH; install it: apt install tmux")
        server = [program, "-f", "/dev/null", "-S", socket_path(self.state, self.environ)]
        bare = ["/usr/bin/env", "-i", *_settings(clean_environment(self.environ))]
        return units.command([*bare, *server, "start-server", ";", "set-option", "-s", "exit-empty", "off"])


def _settings(environ: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environ.items()]


def _template(name: str) -> str:
    with open(os.path.join(shipped.folder("systemd"), name), encoding="utf-8") as file:
        return file.read()


def secrets_file(environ: Mapping[str, str]) -> str:
    """Return where a person keeps what agent.env_pass names; a unit is no place for secrets."""
    config_home = os.path.dirname(os.path.dirname(units.folder(environ)))
    return os.path.join(config_home, "ralphd", "environment")


@click.group(short_help="Run under systemd: install, uninstall, status.")
def service() -> None:
    """Run the daemon and the tmux server as two user units of systemd, which takes an open night up again."""


@service.command()
@click.option("--config", "config", metavar="FILE", default="", help="Use this ralphd.toml.")
@click.option("--force", is_flag=True, help="Replace units of these names that ralphd did not write.")
def install(config: str, *, force: bool) -> None:
    """Write the units and enable them. Nothing begins by that; `ralphd start --service` begins a night."""
    found = settings.found_from(os.getcwd(), config)
    read = found.read()
    named = found.path if os.path.lexists(found.path) else ""
    where = here.place(make=True)
    folder = found.folder if named else os.path.expanduser("~")
    texts = Wanted(environ=os.environ, state=where.state, folder=folder, config=named).texts()
    at = units.folder(os.environ)
    if not force:
        _refuse_foreign(at)
    changed = [_put(os.path.join(at, name), text) for name, text in texts.items()]
    _enable(Manager(environ=os.environ), changed=any(changed))
    _advise(read)


def _refuse_foreign(at: str) -> None:
    for name in UNITS:
        path = os.path.join(at, name)
        if not units.look(path).ours:
            raise UsageError(f"{path} was not written by ralphd; move it away, or replace it by --force")


def _put(path: str, text: str) -> bool:
    if units.look(path).text == text:
        out.say(f"{path} is as it should be")
        return False
    units.write(path, text)
    out.say(f"wrote {path}")
    return True


def _enable(manager: Manager, *, changed: bool) -> None:
    why = manager.absent()
    if why:
        out.say(f"no service manager answers here: {why}")
        out.say(f"where one does: systemctl --user daemon-reload && systemctl --user enable {DAEMON}")
        out.say("until then `ralphd start` leaves a daemon of its own behind, which nobody starts again")
        return
    manager.call("daemon-reload")
    manager.call("enable", DAEMON)
    out.say(f"{DAEMON} is enabled: it takes an open night up whenever your service manager starts")
    if changed and manager.show(DAEMON).get("ActiveState") == "active":
        out.say(f"it runs as it was; loops run on through: systemctl --user restart {DAEMON}")
    if not manager.lingers():
        out.say("your service manager ends at your last logout, and starts at login only: loginctl enable-linger")


def _advise(config: Config) -> None:
    if config.agent.env_pass:
        names = ", ".join(config.agent.env_pass)
        out.say(f"agent.env_pass: put NAME=value lines for {names} into {secrets_file(os.environ)}, mode 600")
    out.say("begin a night under it: ralphd start --service")


@service.command()
def uninstall() -> None:
    """Remove the units that `install` wrote. What runs goes on; `ralphd stop` ends a night."""
    at, manager = units.folder(os.environ), Manager(environ=os.environ)
    ours = [path for name in UNITS if (found := units.look(path := os.path.join(at, name))).there and found.ours]
    if os.path.join(at, DAEMON) in ours and not manager.absent():
        manager.call("disable", DAEMON)
    for path in ours:
        os.unlink(path)
        out.say(f"removed {path}")
    for name in UNITS:
        if os.path.lexists(os.path.join(at, name)):
            out.say(f"{os.path.join(at, name)} was not written by ralphd and stays")
    if not ours:
        out.say("nothing of ralphd's is installed")
    elif not manager.absent():
        manager.call("daemon-reload")


@service.command()
@JSON
def status(*, as_json: bool) -> None:
    """Say whether the units are installed, and what systemd makes of them."""
    at, manager = units.folder(os.environ), Manager(environ=os.environ)
    told = {name: _told(os.path.join(at, name), manager.show(name)) for name in UNITS}
    why, lingers = manager.absent(), manager.lingers()
    if as_json:
        data = {"schema": "ralphd.service/1", "manager": not why, "lingers": lingers, "units": told}
        out.data(data)
    else:
        for name, unit in told.items():
            out.say(f"{name}: {_in_words(unit)}")
        out.say(f"service manager: {why or 'answers'}{'' if lingers else '; it ends at your last logout'}")
    if not told[DAEMON]["installed"]:
        raise NothingRunning("the service is not installed: ralphd service install")


def _told(path: str, shown: dict[str, str]) -> dict[str, object]:
    found = units.look(path)
    return {"path": path, "installed": found.there, "ours": found.there and found.ours, "systemd": shown}


def _in_words(unit: dict[str, object]) -> str:
    shown = unit["systemd"]
    assert isinstance(shown, dict)
    parts = ["installed" if unit["ours"] else "not written by ralphd" if unit["installed"] else "not installed"]
    if shown.get("LoadState") == "loaded":
        parts += [shown.get("UnitFileState", ""), f"{shown.get('ActiveState')} ({shown.get('SubState')})"]
        parts += [shown.get("StatusText", "")]
    return ", ".join(part for part in parts if part)


def hand_over(wanted: Settings, say: Callable[[str], None], *, with_uncommitted: bool) -> int:
    """Begin a night and have the installed service take it up. Returns once its loops run, with the exit code."""
    from ralphd.cli.begin import Start  # noqa: PLC0415  # the other verbs need none of it

    manager = Manager(environ=os.environ)
    _refuse_absent(manager)
    where = here.place(make=True)
    _refuse_other_state(where)
    start = Start(place=where, settings=wanted, environ=os.environ, say=say, with_uncommitted=with_uncommitted)
    ownership = own(where.state, version=__version__, started_at=iso(time.time()) or "")
    try:
        start.mend()
        begun = start.begin()
        begun.journal.close()
    finally:
        ownership.release()
    night = begun.frame.state.id
    try:
        manager.call("start", DAEMON, timeout_s=START_TIMEOUT_S)
    except EdgeError as error:
        raise EdgeError(
            f"night {night} has begun, but: {error}; journalctl --user -u {DAEMON} says more, and `ralphd start` "
            "takes the night up without systemd"
        ) from None
    out.say(f"night {night} runs under systemd")
    return 0


def _refuse_absent(manager: Manager) -> None:
    if not units.look(os.path.join(units.folder(os.environ), DAEMON)).there:
        raise UsageError("the service is not installed: ralphd service install")
    if why := manager.absent():
        raise UsageError(f"no service manager answers here: {why}; `ralphd start` does without")


def _refuse_other_state(where: Place) -> None:
    """Refuse a service that looks elsewhere: it would find no night there, and leave."""
    unit = os.path.join(units.folder(os.environ), DAEMON)
    if units.words([f"RALPHD_STATE={where.state}"]) not in units.look(unit).text:
        raise UsageError(f"{unit} is for another state folder than {where.state}: ralphd service install")
