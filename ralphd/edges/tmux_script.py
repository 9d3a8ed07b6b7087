"""What tmux is told to open windows, in its own command language, with nothing in it left to expand."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ralphd.core.errors import TmuxError

SESSION = "ralphd"
HOME_WINDOW = "night"

_NAME = re.compile(r"[a-z0-9-]{1,40}", re.ASCII)  # tmux expands formats in names: `#(touch x)` would run

_OPTIONS = (
    ("history-limit", "2000"),
    ("default-size", "220x50"),
    ("default-shell", "/bin/sh"),
    ("escape-time", "0"),
    ("remain-on-exit", "off"),
    ("automatic-rename", "off"),
    ("allow-rename", "off"),  # an agent can't rename its window
    ("allow-passthrough", "off"),
    ("set-clipboard", "off"),  # nor write the clipboard of whoever attaches
    ("set-titles", "off"),
    ("update-environment", ""),  # nothing of an attaching person's environment reaches the panes
    ("bell-action", "none"),
    ("status-left", "[ralphd] "),
    ("status-left-length", "12"),
    ("status-right", ""),
    ("window-status-format", "#I:#W"),
    ("window-status-current-format", "#I:#W*"),
)


def house(home: Sequence[str], open_now: Mapping[str, str]) -> list[str]:
    """Say what must stand before the loops' windows: the server's settings, the session, its home window."""
    if not open_now:
        return [*_settings(), _session(home)]
    return [] if HOME_WINDOW in open_now else [window(HOME_WINDOW, home)]


def _settings() -> list[str]:
    return [f"set-option -gq {name} {quote(value)}\n" for name, value in _OPTIONS]


def _session(home: Sequence[str]) -> str:
    return f"new-session -d -P -F '#{{pane_id}} #{{window_name}}' -s {SESSION} -n {HOME_WINDOW} -- {_argv(home)}\n"


def window(name: str, argv: Sequence[str]) -> str:
    return f"new-window -d -P -F '#{{pane_id}} #{{window_name}}' -t '={SESSION}:' -n {name} -- {_argv(argv)}\n"


def _argv(argv: Sequence[str]) -> str:
    """Never a single word: tmux runs two and more without a shell, but hands one alone to a shell."""
    if not argv or not argv[0].startswith("/"):
        raise TmuxError(f"a window's program is an absolute path, not {list(argv[:1])}")
    words = argv if len(argv) > 1 else ("/bin/sh", "-c", 'exec "$0"', *argv)
    return " ".join(quote(word) for word in words)


_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-=:,@+")


def quote(word: str) -> str:
    """Write a word so that tmux's own parser reads it back byte for byte: the unusual as octal escapes."""
    data = os.fsencode(word)
    if 0 in data:
        raise TmuxError(f"a NUL byte can't be in an argument: {word[:80]!r}")
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03o}" for byte in data) + '"'


def refuse_bad_names(names: Sequence[str]) -> None:
    bad = [name for name in names if not _NAME.fullmatch(name) or name == HOME_WINDOW]
    if bad:
        raise TmuxError(f"{bad[0]!r} can't name a window: 1 to 40 of a-z, 0-9 and -, and not {HOME_WINDOW!r}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise TmuxError(f"window {twice!r} was asked for twice")
