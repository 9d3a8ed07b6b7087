"""Which configuration a night runs with: the file it was started from, and what the command line put over it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace

from ralphd.core import configfile, times
from ralphd.core.config import Config
from ralphd.core.errors import ConfigError

NAME = "ralphd.toml"
TOO_LARGE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """``folder`` is where the tasks' paths start from; ``path`` the file, which need not exist unless ``named``."""

    folder: str
    path: str
    named: bool = False
    width: int | None = None
    for_: str = ""
    until: str = ""

    def read(self) -> Config:
        """Read the file again and put the command line over it. Raises ConfigError."""
        config = configfile.read(self._text(), self.path)
        night = config.night
        if self.width is not None:
            night = replace(night, width=self.width)
        if self.for_:
            night = replace(night, for_s=float(times.parse_duration(self.for_)), until="")
        if self.until:
            times.parse_clock(self.until)
            night = replace(night, until=self.until, for_s=None)
        return replace(config, night=night)

    def remember(self) -> dict[str, object]:
        """Return what a later daemon needs to read the same configuration again."""
        return {
            "folder": self.folder,
            "path": self.path,
            "named": self.named or os.path.lexists(self.path),  # once it is gone, its lack must not pass for defaults
            "width": self.width,
            "for": self.for_,
            "until": self.until,
        }

    def _text(self) -> str:
        try:
            with open(self.path, "rb", opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ConfigError(f"{self.path} is not a plain file; put one there")
                data = file.read(TOO_LARGE_BYTES + 1)
        except FileNotFoundError:
            if self.named:
                raise ConfigError(f"{self.path}: no such file") from None
            return ""
        except OSError as error:
            raise ConfigError(f"{self.path} can't be read: {error.strerror}") from None
        if len(data) > TOO_LARGE_BYTES:
            raise ConfigError(f"{self.path} has over {TOO_LARGE_BYTES} bytes; that is no configuration")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"{self.path}:{line} is not UTF-8: byte {error.start} of the file", line=line) from None


def _without_waiting(path: str, flags: int) -> int:
    """Open even a FIFO at once: a daemon that reads its settings again must not wait for somebody to write there."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def found_from(folder: str, given: str = "") -> Settings:
    """Settle which file counts: the one given, else ralphd.toml in ``folder``."""
    if given:
        path = os.path.abspath(given)
        return Settings(folder=os.path.dirname(path), path=path, named=True)
    return Settings(folder=os.path.abspath(folder), path=os.path.join(os.path.abspath(folder), NAME))


def recalled(memory: dict[str, object]) -> Settings:
    """Undo ``remember``."""
    width = memory.get("width")
    return Settings(
        folder=str(memory["folder"]),
        path=str(memory["path"]),
        named=memory.get("named") is True,
        width=width if isinstance(width, int) else None,
        for_=str(memory.get("for") or ""),
        until=str(memory.get("until") or ""),
    )
