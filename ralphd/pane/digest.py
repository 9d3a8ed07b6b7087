"""What a person reads in the pane while an agent works: short sentences, one line each, nothing that bites."""

from __future__ import annotations

import os
import select
import time

from ralphd.core.redact import Redactor
from ralphd.core.signals import Asked, Began, Called, Compacted, Failed, Resulted, Retrying, Returned, Said, Unread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.core.signals import Signal

LOOK_AT_CHARS = 4096  # of any text: a line of the pane shows a few hundred at most
WIDE_FROM = 0x1100  # Hangul and all that is wide lies beyond; taking all of it as wide never overflows a line
LINES_A_SECOND = 40  # more than a screen: a flood costs neither the terminal nor the runner anything
NARROWEST, USUAL = 20, 100
SHORTEST_SECRET = 4  # shorter values would blot out ordinary words


def plain(text: str) -> str:
    """Return one line that a terminal can only print.

    Control, format (bidi, zero width), private and unassigned characters become escapes, white space a space.
    """
    return "".join(_shown(char) for char in text[:LOOK_AT_CHARS]).strip()


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    if char.isspace() and char not in "\x1c\x1d\x1e\x1f\x85":
        return " "
    return char.encode("unicode_escape").decode("ascii")


def cut(text: str, width: int) -> str:
    """Return as much of ``text`` as fits ``width`` columns, with … where something is missing."""
    used = 0
    for place, char in enumerate(text):
        used += 2 if ord(char) >= WIDE_FROM else 1
        if used > width:
            return _end(text[:place], width)
    return text


def _end(text: str, width: int) -> str:
    while text and sum(2 if ord(char) >= WIDE_FROM else 1 for char in text) > width - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def first_and_last(text: str) -> str:
    """Return what sums a result up in one line: its last line that says something, or the only one."""
    lines = [line for line in text[-LOOK_AT_CHARS:].splitlines() if line.strip()]
    return lines[-1] if lines else ""


class Digest:
    """Prints sentences. ``write`` takes one encoded line, newline included, and never blocks."""

    def __init__(self, write: Callable[[bytes], None], *, clock: Callable[[], float], width: Callable[[], int]) -> None:
        self._write = write
        self._clock = clock
        self._width = width
        self._second = self._printed = 0
        self._secrets: tuple[str, ...] = ()
        self._redactor = Redactor()

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what is known to be secret; what only has the shape of a secret isn't shown either."""
        return self._secrets

    @secrets.setter
    def secrets(self, values: tuple[str, ...]) -> None:
        if values != self._secrets:
            self._secrets = values
            self._redactor = Redactor(values, shortest=SHORTEST_SECRET)

    def say(self, text: str) -> None:
        """Print one sentence with the time in front."""
        line = f"{time.strftime('%H:%M', time.localtime(self._clock()))} {self._safe(text)}"
        self._write((cut(line, max(NARROWEST, self._width())) + "\r\n").encode("utf-8", "backslashreplace"))

    def show(self, signal: Signal) -> None:
        """Print what a signal means to a person, if anything; of a flood only as much as anybody can read."""
        if self._may_print():
            words = sentence(signal)
            if words:
                self._printed += 1
                self.say(words)

    def show_error(self, line: bytes) -> None:
        """Print one line of the agent's stderr."""
        if line.strip() and self._may_print():
            self._printed += 1
            self.say(line[:LOOK_AT_CHARS].decode("utf-8", "replace"))

    def _may_print(self) -> bool:
        second = int(self._clock())
        if second != self._second:
            self._second, self._printed = second, 0
        return self._printed < LINES_A_SECOND

    def _safe(self, text: str) -> str:
        # Cut far behind what is shown: a secret that is cut in two has no shape any more.
        return plain(self._redactor.text(text[: 2 * LOOK_AT_CHARS]))


def sentence(signal: Signal) -> str:
    """Say what a signal means to a person, on any number of lines; empty for what is too much to read."""
    match signal:
        case Said(text=text):
            return f"says: {text}" if text.strip() else ""
        case Called(tool=tool, command=command):
            return f"runs: {command}" if command else f"uses {tool}"
        case Returned(text=text, is_error=is_error):
            return f"  -> {'error: ' if is_error else ''}{first_and_last(text) or '(no output)'}"
        case Began(model=model, version=version):
            return f"begins {model} {version}".rstrip()
        case Compacted(tokens_before=before, tokens_after=later):
            return f"context compacted ({before or '?'} -> {later or '?'} tokens)"
        case Retrying(status=status, error=error, delay_s=delay_s):
            when = f" in {delay_s:.0f} s" if delay_s else ""
            return f"the CLI asks again{when} ({status or error or 'no answer'})"
        case Failed(status=status, error=error, message=message):
            return f"inference failed: {status or ''} {error} {message}"
        case Resulted(ok=ok, text=text):
            return f"{'result' if ok else 'failed'}: {first_and_last(text)}"
        case Asked(question=question):
            return f"asks: {question}"
        case Unread(text=text):
            return text
        case _:
            return ""  # tokens, requests and pieces of an answer: too many to read


class Screen:
    """The pane's terminal, which may be slow, narrow or gone. Nothing here waits or fails."""

    def __init__(self, fd: int) -> None:
        self._shared = fd
        self._fd = _reopened(fd)
        self._missed = 0

    def write(self, line: bytes) -> None:
        if self._missed:
            line = f"({self._missed} lines not shown: the terminal was busy)\r\n".encode() + line
        try:
            if self._fd == self._shared:
                self._write_if_there_is_room(line)
            else:
                os.write(self._fd, line)
            self._missed = 0
        except BlockingIOError:
            self._missed += 1
        except OSError:
            self._missed = 0  # the terminal is gone; the loop is not

    def _write_if_there_is_room(self, line: bytes) -> None:
        """Write to a description that others share, whose mode is not ours to change."""
        room = select.poll()
        room.register(self._fd, select.POLLOUT)
        if not room.poll(0):
            raise BlockingIOError
        os.write(self._fd, line)

    def width(self) -> int:
        try:
            return os.get_terminal_size(self._fd).columns or USUAL
        except OSError:
            return USUAL


def _reopened(fd: int) -> int:
    """Open the terminal anew: non-blocking mode set on the shared description would hit others who write there."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        return fd  # a socket can't be opened by name
