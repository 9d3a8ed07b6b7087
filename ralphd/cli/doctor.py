"""Would a night start here, and would it live? One line a check, each with the way out."""

from __future__ import annotations

import getpass
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import click

from ralphd import __version__
from ralphd.cli import here, out, preflight, settings, shipped
from ralphd.cli.out import JSON
from ralphd.cli.place import Place
from ralphd.core.config import Config
from ralphd.core.errors import NothingRunning, RalphdError
from ralphd.daemon.assign import base_environment
from ralphd.edges import host
from ralphd.edges.checkout import Checkout, describe_repo, resolve_base
from ralphd.edges.git import Git
from ralphd.edges.notifier import Apprise
from ralphd.edges.ownership import filesystem_of, open_state, state_folder
from ralphd.edges.tmux import Tmux
from ralphd.pane import cgroup as groups

OLDEST_PYTHON = (3, 11)
LOOP_DISK_BYTES = 1 << 30  # a guess at a worktree with its build, and its logs; a warning, never a refusal
LOOP_DESCRIPTORS = 4  # the daemon holds a records file per loop; the rest is for what comes and goes
OWN_DESCRIPTORS = 256
AGENT_BYTES = 350 << 20  # Claude Code 2.1 held 186 MiB while a tool ran, 314 MiB after 200 turns


class Level(StrEnum):
    """How much a finding matters: ``fail`` means that a start here would be refused, or die."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found. ``way_out`` is empty when all is well."""

    check: str
    level: Level
    found: str
    way_out: str = ""


@dataclass(frozen=True, kw_only=True)
class Patient:
    """What the checks look at. ``config`` holds defaults where ralphd.toml can't be read (``mistake`` says why)."""

    folder: str
    environ: Mapping[str, str]
    config: Config
    has_config: bool
    mistake: str


@click.command()
@click.option("--config", "config", metavar="FILE", default="", help="Use this ralphd.toml.")
@JSON
def doctor(config: str, *, as_json: bool) -> None:
    """Check whether a night could start and live here.

    One line a check: ok, warn or fail, with the way out. The exit status is 1 when one fails.
    """
    findings = [_safely(check, _patient(config)) for check in CHECKS]
    failed = any(finding.level is Level.FAIL for finding in findings)
    if as_json:
        told = [{**vars(finding), "level": finding.level.value} for finding in findings]
        out.data({"schema": "ralphd.doctor/1", "version": __version__, "ok": not failed, "checks": told})
    else:
        for finding in findings:
            way_out = f"; {finding.way_out}" if finding.way_out else ""
            out.say(f"{finding.level.value:4}  {finding.check:10}  {finding.found}{way_out}")
    if failed:
        raise click.exceptions.Exit(1)


def _patient(path: str) -> Patient:
    found = settings.found_from(os.getcwd(), path)
    there = os.path.lexists(found.path)
    patient = Patient(folder=found.folder, environ=os.environ, config=Config(), has_config=there, mistake="")
    try:
        return replace(patient, config=found.read())
    except RalphdError as error:
        return replace(patient, mistake=str(error))


def _safely(check: Callable[[Patient], Finding], patient: Patient) -> Finding:
    """Make what a check raises its finding: every error of ours names the way out itself."""
    name = check.__name__.strip("_")
    if patient.mistake and check in CONFIGURED:
        return Finding(check=name, level=Level.WARN, found="not looked at, for ralphd.toml can't be read")
    try:
        return replace(check(patient), check=name)
    except RalphdError as error:
        return Finding(check=name, level=Level.FAIL, found=str(error))
    except OSError as error:
        return Finding(check=name, level=Level.WARN, found=f"can't be told: {error.strerror or error}")


def _ok(found: str) -> Finding:
    return Finding(check="", level=Level.OK, found=found)


def _warn(found: str, way_out: str = "") -> Finding:
    return Finding(check="", level=Level.WARN, found=found, way_out=way_out)


def _fail(found: str, way_out: str = "") -> Finding:
    return Finding(check="", level=Level.FAIL, found=found, way_out=way_out)


def python(_patient: Patient) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        return _fail(f"Python {version}", "ralphd needs 3.11 or newer")
    return _ok(f"Python {version} ({os.path.realpath(sys.executable)})")


def ralphd(_patient: Patient) -> Finding:
    for name in ("prompts", "migrations"):
        shipped.folder(name)
    shipped.check_runner()
    return _ok(f"ralphd {__version__} ({shipped.PACKAGE})")


def git(patient: Patient) -> Finding:
    if shutil.which("git", path=patient.environ.get("PATH", os.defpath)) is None:
        return _fail("no git on PATH", "install it: apt install git")
    _, version, _ = Git(git_dir="/").run("--version")
    return _ok(os.fsdecode(version).strip())


def tmux(patient: Patient) -> Finding:
    return _ok(Tmux("", environ=patient.environ).check())


def state(patient: Patient) -> Finding:
    """Look at the state folder without making it."""
    path = state_folder(patient.environ)
    if os.path.lexists(path):
        return _ok(open_state(path))
    above = _existing(path)
    if not os.access(above, os.W_OK | os.X_OK):
        return _fail(f"{path} can't be made: {above} is not yours to write in", "set RALPHD_STATE to a folder of yours")
    kind = filesystem_of(above)
    return _ok(f"{path} will be made ({kind or 'unknown filesystem'})")


def night(patient: Patient) -> Finding:
    """Look whether a night runs, or stands open without a daemon."""
    where = Place(state=state_folder(patient.environ))
    try:
        (reply,) = here.request(where, {"verb": "status"})
    except NothingRunning as error:
        said = str(error)
        return _warn(said) if "is open" in said else _ok(said.partition(";")[0])
    data = reply.get("data")
    return _ok(f"night {data['night']['id']} runs" if isinstance(data, dict) else "a night runs")


def disk(patient: Patient) -> Finding:
    (facts,) = host.look([_existing(state_folder(patient.environ))]).disks
    inodes = "" if facts.free_inodes is None else f", {facts.free_inodes} inodes"
    found = f"{_human(facts.free_bytes)} free{inodes} at {facts.path}"
    wanted = LOOP_DISK_BYTES * patient.config.night.width
    if facts.free_bytes < LOOP_DISK_BYTES or facts.free_inodes == 0:
        return _fail(found, "make room, or set RALPHD_STATE to another disk")
    if facts.free_bytes < wanted:
        return _warn(
            found, f"{patient.config.night.width} loops may want {_human(wanted)}: make room or narrow the night"
        )
    return _ok(found)


def memory(patient: Patient) -> Finding:
    free, width = host.look([]).memory_available_bytes, patient.config.night.width
    wanted = width * AGENT_BYTES + patient.config.limits.tool_memory_bytes
    found = f"{_human(free)} available"
    if free < wanted:
        return _warn(found, f"{width} agents and one tool call at its limit want {_human(wanted)}: lower night.width")
    return _ok(f"{found} for {width} loops")


def files(patient: Patient) -> Finding:
    limit, width = host.look([]).fd_limit, patient.config.night.width
    if limit < OWN_DESCRIPTORS + LOOP_DESCRIPTORS * width:
        return _warn(f"{limit} open files allowed", f"{width} loops want more: ulimit -n 4096 before `ralphd start`")
    return _ok(f"{limit if limit < sys.maxsize else 'any number of'} open files allowed")


def cgroup(_patient: Patient) -> Finding:
    """Make a group as a runner would; without one the memory of tool calls is held to its limit by looking alone."""
    group = groups.make(f"ralphd-doctor-{os.getpid()}")
    if group is None:
        return _ok("none that you may make; the memory of a tool call is held by watching /proc")
    version = 2 if os.path.exists(os.path.join(group, "cgroup.controllers")) else 1
    groups.remove(group)
    return _ok(f"version {version}; the kernel holds the memory of a tool call beside the watch of /proc")


def linger(_patient: Patient) -> Finding:
    """Look whether the user's processes outlive the last logout: systemd may end them all."""
    if not os.path.isdir("/run/systemd/system"):
        return _ok("no systemd here: nothing ends a night at logout")
    user = getpass.getuser()
    if os.geteuid() == 0 or os.path.exists(f"/var/lib/systemd/linger/{user}"):
        return _ok(f"{user}'s processes outlive a logout")
    return _warn("systemd may end a night when you log out", f"loginctl enable-linger {user}")


def config(patient: Patient) -> Finding:
    if patient.mistake:
        return _fail(patient.mistake)
    if not patient.has_config:
        return _warn("no ralphd.toml here: defaults count, nothing verifies", "`ralphd init` writes one")
    return _ok(f"{os.path.join(patient.folder, settings.NAME)} is valid")


def repository(patient: Patient) -> Finding:
    found = [(task, _checkout(patient, task.repo)) for task in patient.config.tasks]
    for task, checkout in found:
        resolve_base(checkout, task.base)
    left_out = sum(checkout.uncommitted for _, checkout in found)
    where = ", ".join(checkout.toplevel for _, checkout in found)
    if left_out:
        paths = "1 uncommitted path is" if left_out == 1 else f"{left_out} uncommitted paths are"
        return _warn(f"{where}: {paths} left out", "commit them, or start --with-uncommitted")
    return _ok(where)


def prompt(patient: Patient) -> Finding:
    paths = [os.path.join(_checkout(patient, task.repo).toplevel, task.prompt) for task in patient.config.tasks]
    for path in paths:
        preflight.check_prompt(path)
    return _ok(", ".join(paths))


def verifier(patient: Patient) -> Finding:
    path = patient.environ.get("PATH", os.defpath)
    for task in patient.config.tasks:
        if not task.verify.command:
            return _warn("none: every verdict is `unverified`", "set task.verify.command in ralphd.toml")
        preflight.check_verifier(task.verify.command, _checkout(patient, task.repo).toplevel, path)
    return _ok(", ".join(task.verify.command for task in patient.config.tasks))


def agent(patient: Patient) -> Finding:
    preflight.check_environment(patient.config.agent, patient.environ)
    program = preflight.find_program(patient.config.agent, patient.folder, patient.environ)
    return _ok(f"{patient.config.agent.cli}: {program}")


def notify(patient: Patient) -> Finding:
    """Look whether the places can be used; none of them is asked."""
    urls = patient.config.notify.urls
    if not urls:
        return _ok("nobody is told of anything: no notify.urls")
    if refused := Apprise(urls, base_environment(patient.environ)).refused():
        return _fail(f"apprise can't use {', '.join(refused)}", "see its documentation for the URL of your service")
    return _ok(f"{len(urls)} in notify.urls; `ralphd notify` sends a test")


CONFIGURED = (verifier, agent, notify)  # the defaults say nothing of what the file meant

CHECKS: tuple[Callable[[Patient], Finding], ...] = (
    python,
    ralphd,
    git,
    tmux,
    state,
    night,
    disk,
    memory,
    files,
    cgroup,
    linger,
    config,
    repository,
    prompt,
    verifier,
    agent,
    notify,
)


def _checkout(patient: Patient, repo: str) -> Checkout:
    return describe_repo(os.path.join(patient.folder, os.path.expanduser(repo)))


def _existing(path: str) -> str:
    """Return the path, or the nearest folder above that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _human(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
