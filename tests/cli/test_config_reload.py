"""Whatever becomes of ralphd.toml while a night runs: the old configuration stays, and one line says why."""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from ralphd.cli import serve
from ralphd.cli.settings import TOO_LARGE_BYTES, Settings
from ralphd.core.config import Config
from ralphd.core.errors import UsageError
from ralphd.core.redact import Redactor

GOOD = """\
[night]
width = 3
[agent]
cli = "command"
program = "/bin/true"
[limits]
tool_seconds = 60
[[task]]
name = "main"
[task.verify]
command = "cat score"
score = "exit"
"""
TEXTS = {
    "unknown key": GOOD.replace("width", "widht"),
    "unknown section": GOOD + "[nihgt]\n",
    "unknown cli": GOOD.replace('"command"', '"comand"'),
    "unknown score": GOOD.replace('"exit"', '"exti"'),
    "width as text": GOOD.replace("3", '"3"'),
    "width as a float": GOOD.replace("3", "3.0"),
    "width true": GOOD.replace("3", "true"),
    "width 0": GOOD.replace("3", "0"),
    "width negative": GOOD.replace("3", "-3"),
    "width huge": GOOD.replace("3", "9" * 400),
    "width a list": GOOD.replace("3", "[3]"),
    "width a table": GOOD.replace("3", "{}"),
    "width a date": GOOD.replace("3", "2026-01-01"),
    "seconds nan": GOOD.replace("60", "nan"),
    "seconds inf": GOOD.replace("60", "inf"),
    "seconds 0": GOOD.replace("60", "0"),
    "seconds negative": GOOD.replace("60", "-1"),
    "seconds as text": GOOD.replace("60", '"60"'),
    "memory as words": GOOD.replace("tool_seconds = 60", 'tool_memory = "lots"'),
    "memory 0": GOOD.replace("tool_seconds = 60", "tool_memory = 0"),
    "program as a number": GOOD.replace('"/bin/true"', "1"),
    "program missing": GOOD.replace("/bin/true", "/bin/no-such-program"),
    "program a folder": GOOD.replace("/bin/true", "/bin"),
    "program with a NUL": GOOD.replace("/bin/true", "/bin/true\\u0000"),
    "task a table": GOOD.replace("[[task]]", "[task]"),
    "task name odd": GOOD.replace('"main"', '"../main"'),
    "task name empty": GOOD.replace('"main"', '""'),
    "tasks of one name": GOOD + '[[task]]\nname = "main"\n',
    "tasks over the width": GOOD.replace('"main"', '"main"\nwidth = 9'),
    "protect outside": GOOD.replace('score = "exit"', 'protect = ["../x"]'),
    "protect absolute": GOOD.replace('score = "exit"', 'protect = ["/x"]'),
    "goal without command": GOOD.replace('command = "cat score"', "goal = 1"),
    "both ends": GOOD.replace("width = 3", 'until = "07:00"\nfor = "8h"'),
    "no time of day": GOOD.replace("width = 3", 'until = "25:00"'),
    "no duration": GOOD.replace("width = 3", 'for = "eight"'),
    "env name with =": GOOD.replace("[limits]", 'env = { "A=B" = "1" }\n[limits]'),
    "env value a number": GOOD.replace("[limits]", "env = { A = 1 }\n[limits]"),
    "env_pass not set": GOOD.replace("[limits]", 'env_pass = ["NOT_SET_ANYWHERE"]\n[limits]'),
    "args a text": GOOD.replace("[limits]", 'args = "-x"\n[limits]'),
    "backoff upside down": GOOD.replace("tool_seconds = 60", "backoff_min_seconds = 9\nbackoff_max_seconds = 1"),
    "a key twice": GOOD.replace("width = 3", "width = 3\nwidth = 4"),
    "a section twice": GOOD + "[night]\n",
    "unclosed text": GOOD.replace('"main"', '"main'),
    "unclosed section": GOOD.replace("[night]", "[night"),
    "half of it": GOOD[: len(GOOD) // 2 + 5],
    "a merge conflict": "<<<<<<< HEAD\n" + GOOD,
    "json": '{"night": {"width": 3}}',
    "a NUL": GOOD + "\0",
    "an escape": GOOD + "\x1b[2J",
    "lone carriage returns": GOOD.replace("\n", "\r"),
    "two byte order marks": "\ufeff\ufeff" + GOOD,
    "deeply nested": "x = " + "[" * 5000 + "]" * 5000,
    "huge": "# " + "x" * TOO_LARGE_BYTES + "\n" + GOOD,
}
BYTES = {
    "UTF-16": GOOD.encode("utf-16"),
    "Latin-1": (GOOD + "# é").encode("latin-1"),
    "half a letter": GOOD.encode() + b"# \xf0\x9f",
    "random bytes": bytes(range(256)) * 9,
}


def _link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


PLACES: dict[str, Callable[[Path], None]] = {
    "gone": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir())[-1],
    "a FIFO": lambda path: (path.unlink(), os.mkfifo(path))[-1],
    "a link to nowhere": lambda path: _link(path, "nowhere"),
    "a link to itself": lambda path: _link(path, path.name),
    "a link to a device": lambda path: _link(path, "/dev/zero"),
    "its folder gone": lambda path: shutil.rmtree(path.parent),
}
FINE = {
    "a byte order mark": "\ufeff" + GOOD,
    "CRLF": GOOD.replace("\n", "\r\n"),
    "empty lines and comments": GOOD.replace("\n", "\n\n# x\n"),
}
KINDS = {
    **{name: text.encode() for name, text in TEXTS.items()},
    **BYTES,
    **PLACES,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    path = tmp_path / "project" / "ralphd.toml"
    path.write_text(GOOD)
    return path


def reload(path: Path) -> Config:
    """What the daemon does when the file was changed."""
    settings = Settings(folder=str(path.parent), path=str(path))
    frame = types.SimpleNamespace(environ={"PATH": os.environ["PATH"]})
    journal = types.SimpleNamespace(redactor=Redactor())
    config, _ = serve.reload(types.SimpleNamespace(settings=settings, frame=frame, journal=journal))  # type: ignore[arg-type]
    return config


def test_there_are_sixty_of_them() -> None:
    assert len(KINDS) >= 60


@pytest.mark.parametrize("name", KINDS)
def test_a_bad_edit_is_refused_in_one_line(path: Path, name: str) -> None:
    """Refused, and never anything else: what isn't a refusal would end the daemon's pass, or its patience."""
    kind = KINDS[name]
    if isinstance(kind, bytes):
        path.write_bytes(kind)
    else:
        kind(path)
    with pytest.raises(UsageError) as refused:
        reload(path)
    assert len(str(refused.value).splitlines()) == 1
    assert "ralphd.toml" in str(refused.value) or "program" in str(refused.value) or "env_pass" in str(refused.value)
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("name", FINE)
def test_an_editor_that_means_well_is_understood(path: Path, name: str) -> None:
    before = reload(path)
    path.write_bytes(FINE[name].encode())
    assert dataclasses.asdict(reload(path)) == dataclasses.asdict(before)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cant_be_read_is_refused(path: Path) -> None:
    path.chmod(0)
    with pytest.raises(UsageError, match="can't be read"):
        reload(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0
