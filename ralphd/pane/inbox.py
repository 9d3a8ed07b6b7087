"""What the daemon and the person want of this loop: the assignment, the newest order, the notes."""

from __future__ import annotations

import json
import os

from ralphd.core.codec import Malformed, load
from ralphd.core.exchange import NOW, Assignment, Order
from ralphd.pane.files import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

FILE_LIMIT_BYTES = 4 << 20  # an assignment holds a rendered preamble and an environment
NOTE_LIMIT_BYTES = 64 << 10
NOTES_LIMIT = 20  # for one session: the rest waits for the next


def stamp(path: str) -> tuple[int, ...] | None:
    """Return what differs when a file was replaced or written, None when there is none. Takes microseconds."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_mtime_ns, found.st_ino, found.st_size


class Inbox:
    """Reads the loop's folder. A file that is missing, odd or half is ``None``: what was known before stays true."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.trouble = ""
        self._seen: tuple[int, ...] | None = None
        self._known: Assignment | None = None
        self._noted: tuple[int, ...] | None = None

    def assignment(self) -> Assignment | None:
        """Return what loop.json says; it is read again only when it was replaced."""
        seen = stamp(os.path.join(self._folder, "loop.json"))
        if seen is None or seen != self._seen:
            self._known = self._load(Assignment, "loop.json")
            self._seen = seen if self._known is not None else None
        return self._known

    def order(self) -> Order | None:
        return self._load(Order, "order.json")

    def has_news(self) -> bool:
        """Tell whether a note came or went since the last time. Takes microseconds."""
        before, self._noted = self._noted, stamp(os.path.join(self._folder, "notes"))
        return self._noted != before

    def notes(self, *, now: bool = False) -> tuple[tuple[str, str], ...]:
        """Return (name, text) of each note, in order of name; with ``now`` those that must not wait."""
        found = []
        for name in self._names(f"{NOW}.md" if now else ".md"):
            try:
                data = read_regular(os.path.join(self._folder, "notes", name), NOTE_LIMIT_BYTES)
            except OSError:
                continue
            found.append((name, data.decode("utf-8", "replace")))
        return tuple(found[:NOTES_LIMIT])

    def use(self, notes: tuple[tuple[str, str], ...]) -> None:
        """Move notes that a session has been given to notes/used/."""
        if not notes:
            return
        folder = os.path.join(self._folder, "notes")
        try:
            os.makedirs(os.path.join(folder, "used"), mode=0o700, exist_ok=True)
        except OSError as error:
            self.trouble = f"notes: {error.strerror}"
        for name, _ in notes:
            try:
                os.rename(os.path.join(folder, name), os.path.join(folder, "used", name))
            except FileNotFoundError:
                continue  # it was taken back a moment too late
            except OSError as error:
                self.trouble = f"notes: {error.strerror}"

    def take_back(self, notes: tuple[tuple[str, str], ...]) -> None:
        """Leave notes that were used in vain for the next session."""
        folder = os.path.join(self._folder, "notes")
        for name, _ in notes:
            try:
                os.rename(os.path.join(folder, "used", name), os.path.join(folder, name))
            except OSError as error:
                self.trouble = f"notes: {error.strerror}"

    def _names(self, ending: str) -> list[str]:
        try:
            names = os.listdir(os.path.join(self._folder, "notes"))
        except OSError:
            return []
        return sorted(name for name in names if name.endswith(ending))

    def _load(self, cls: type[T], name: str) -> T | None:
        try:
            data = json.loads(read_regular(os.path.join(self._folder, name), FILE_LIMIT_BYTES))
            return load(cls, data)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError, Malformed) as error:
            self.trouble = f"{name}: {error}"
            return None
