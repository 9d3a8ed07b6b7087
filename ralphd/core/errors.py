"""The whole error tree of ralphd. Everything here reaches a person as one clear line.

RalphdError
├── UsageError          exit 2: a wrong command line or a precondition the person can mend
│   └── ConfigError     exit 2: ralphd.toml, with the key and the line
├── NothingRunning      exit 3: no daemon, or no such night or loop
├── StateOwned          exit 75: another daemon owns the state folder
└── EdgeError           exit 1: something outside failed
    ├── GitError        a git command failed
    ├── TmuxError       the tmux server failed or is too old
    ├── JournalError    the journal can't be read or written
    └── AdviserError    the supervisor's model can't be reached, or refuses to answer
"""

from __future__ import annotations


class RalphdError(Exception):
    """Says what is wrong, where, and the way out. ``exit_code`` is the process's."""

    exit_code = 1


class UsageError(RalphdError):
    exit_code = 2


class ConfigError(UsageError):
    """A mistake in ralphd.toml. ``key`` is dotted (``night.width``); ``line`` is 1-based, 0 if unknown."""

    def __init__(self, message: str, *, key: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.key = key
        self.line = line


class NothingRunning(RalphdError):
    exit_code = 3


class StateOwned(RalphdError):
    exit_code = 75


class EdgeError(RalphdError):
    pass


class GitError(EdgeError):
    """A git command failed. ``stderr`` is what git said, already capped."""

    def __init__(self, message: str, *, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class TmuxError(EdgeError):
    pass


class JournalError(EdgeError):
    """The journal can't be read or written. ``kind`` is the outcome (``host.disk_full``) that this is, if known."""

    def __init__(self, message: str, *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class AdviserError(EdgeError):
    """The model's endpoint gave no answer. ``floor_s``: it said not to ask again sooner."""

    def __init__(self, message: str, *, floor_s: float = 0.0) -> None:
        super().__init__(message)
        self.floor_s = floor_s
