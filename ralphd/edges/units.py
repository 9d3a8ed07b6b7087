"""What systemd's user manager holds of ours: unit files, how they are written, and what systemctl says of them."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ralphd.core.errors import EdgeError, UsageError

MARK = "# Written by `ralphd service install`"
CALL_TIMEOUT_S = 90.0  # what systemd itself gives a job by default
LINGERING = "/var/lib/systemd/linger"
SHOWN = (
    "LoadState",
    "UnitFileState",
    "ActiveState",
    "SubState",
    "StatusText",
    "NRestarts",
    "WatchdogUSec",
    "OOMPolicy",
)


def folder(environ: Mapping[str, str]) -> str:
    """Say where a user's own units lie. UsageError when HOME is needed for that and not set."""
    if (base := environ.get("XDG_CONFIG_HOME", "")).startswith("/"):
        return os.path.join(base, "systemd", "user")
    if (home := environ.get("HOME", "")).startswith("/"):
        return os.path.join(home, ".config", "systemd", "user")
    raise UsageError("HOME is not set, so there is no place for a user's units; set HOME or XDG_CONFIG_HOME")


# ---------------------------------------------------------------------- how systemd wants words written


def path(text: str) -> str:
    """Write a path that has a line for itself, such as WorkingDirectory=; it is read raw but for specifiers."""
    _refuse_unwritable(text)
    if text != text.strip() or text.endswith("\\"):
        raise UsageError(f"{text!r} can't be written into a unit: its last character would be lost; rename it")
    return text.replace("%", "%%")


def words(items: Sequence[str]) -> str:
    """Write words that are split and unquoted again, as in Environment=."""
    return " ".join(_quoted(item) for item in items)


def command(argv: Sequence[str]) -> str:
    """Write a command line for ExecStart=. There ``$`` begins a variable, except in the program's own path."""
    if set(argv[0]) & set("\"'\\"):
        raise UsageError(f"systemd runs no program of the name {argv[0]!r}; put it where no quote or backslash is")
    program, *rest = (_quoted(item) for item in argv)
    return " ".join([program, *(item.replace("$", "$$") for item in rest)])


def _quoted(text: str) -> str:
    _refuse_unwritable(text)
    if text == ";":
        return "\\;"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def _refuse_unwritable(text: str) -> None:
    if not text.isprintable():  # a line break, a control character, a byte that is not UTF-8
        raise UsageError(f"{text!r} can't be written into a unit; give it a name of printable characters")


# ---------------------------------------------------------------------- the files


@dataclass(frozen=True, kw_only=True)
class Found:
    """What lies where a unit belongs. ``ours``: it bears our mark, or nothing is there."""

    there: bool
    ours: bool
    text: str = ""


def look(at: str) -> Found:
    if not os.path.lexists(at):
        return Found(there=False, ours=True)
    if os.path.islink(at) or not os.path.isfile(at):
        return Found(there=True, ours=False)  # a masked unit, or one that is kept elsewhere
    with open(at, encoding="utf-8", errors="replace") as file:
        text = file.read()
    return Found(there=True, ours=text.startswith(MARK), text=text)


def write(at: str, text: str) -> None:
    """Put a unit in its place in one step, whatever was there."""
    os.makedirs(os.path.dirname(at), exist_ok=True)
    fd, new = tempfile.mkstemp(prefix=".ralphd-", dir=os.path.dirname(at))
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, at)
    except BaseException:
        os.unlink(new)
        raise


# ---------------------------------------------------------------------- systemctl, loginctl


@dataclass(frozen=True, kw_only=True)
class Manager:
    """The user's service manager, asked through ``systemctl --user``."""

    environ: Mapping[str, str]

    def absent(self) -> str:
        """Return why there is none that answers, or nothing when one does."""
        code, said = self._run("systemctl", "--user", "show", "--property=Version")
        return "" if code == 0 else said or f"systemctl ended with status {code}"

    def call(self, *args: str, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Do what must succeed. EdgeError with what systemctl said."""
        code, said = self._run("systemctl", "--user", *args, timeout_s=timeout_s)
        if code != 0:
            raise EdgeError(f"systemctl --user {' '.join(args)} failed: {said or f'exit status {code}'}")

    def show(self, unit: str) -> dict[str, str]:
        """Return the SHOWN properties of a unit; empty when nobody answers."""
        code, said = self._run("systemctl", "--user", "show", unit, f"--property={','.join(SHOWN)}")
        pairs = (line.partition("=") for line in said.splitlines())
        return {name: value for name, _, value in pairs if name in SHOWN} if code == 0 else {}

    def lingers(self) -> bool:
        """Tell whether the manager, and all it runs, starts with the machine and outlives the last logout."""
        user = _user()
        code, said = self._run("loginctl", "show-user", user, "--property=Linger", "--value")
        if code == 0 and said in ("yes", "no"):
            return said == "yes"
        return os.path.exists(os.path.join(LINGERING, user))

    def _run(self, *argv: str, timeout_s: float = CALL_TIMEOUT_S) -> tuple[int, str]:
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        environ = {**self.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
        try:
            done = subprocess.run(
                argv, stdin=null, stdout=pipe, stderr=subprocess.STDOUT, env=environ, timeout=timeout_s, check=False
            )
        except FileNotFoundError:
            return 127, f"there is no {argv[0]} on PATH"
        except subprocess.TimeoutExpired:
            return 124, f"{argv[0]} didn't answer within {timeout_s:g} s"
        return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
