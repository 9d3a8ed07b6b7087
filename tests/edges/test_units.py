"""How words are written so that systemd reads them back as they were."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from support.needs import missing

from ralphd.core.errors import UsageError
from ralphd.edges import units

ODD = "100%% %h {b} é $HOME ;"


def test_a_command_line_escapes_what_systemd_expands():
    """Specifiers everywhere; variables in arguments, but not in the program's path, where there are none."""
    written = units.command(["/a b/$x %h/p", "%n", "$HOME", "${A}", ";", 'say "hi"', "back\\slash", ""])
    assert written == '"/a b/$x %%h/p" "%%n" "$$HOME" "$${A}" \\; "say \\"hi\\"" "back\\\\slash" ""'


@pytest.mark.parametrize("bad", ['/a"b', "/a'b", "/a\\b"])
def test_a_program_that_systemd_refuses_is_refused_before(bad):
    """Quotes and backslashes are special characters to it, in a program's path only."""
    with pytest.raises(UsageError, match="systemd runs no program"):
        units.command([bad])


def test_settings_keep_their_dollars():
    """Environment= expands specifiers and no variables."""
    assert units.words(["PATH=/a b:/c%d", "X=$Y"]) == '"PATH=/a b:/c%%d" "X=$Y"'


def test_a_path_is_read_raw_but_for_specifiers():
    """WorkingDirectory= and EnvironmentFile= take the rest of the line, quotes and all."""
    assert units.path('/a b/%h "q"') == '/a b/%%h "q"'


@pytest.mark.parametrize("bad", ["/a\nExecStartPre=/bin/x", "/a\tb", "/a\x1b[2J", "/a\udcff", "/a\u202eb"])
def test_what_a_unit_cant_hold_is_refused(bad):
    """A line break would be a setting of its own; bytes that are no UTF-8 make systemd skip the line."""
    for write in (units.path, lambda text: units.command([text]), lambda text: units.words([text])):
        with pytest.raises(UsageError, match="can't be written into a unit"):
            write(bad)


@pytest.mark.parametrize("bad", ["/a ", "/a\\"])
def test_a_raw_path_keeps_its_last_character_or_is_refused(bad):
    """A trailing blank is cut, and a backslash joins the next line."""
    with pytest.raises(UsageError, match="last character"):
        units.path(bad)


def test_systemd_finds_a_program_of_an_odd_name(tmp_path):
    """The proof of the escapes: systemd-analyze looks for the very file, and misses it when one is left out."""
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze is missing: apt install systemd")
    folder = tmp_path / ODD
    folder.mkdir()
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert _complaint(tmp_path, units.command([str(program), f'{ODD} "q" \\x'])) == ""
    assert "not executable" in _complaint(tmp_path, units.command([str(program) + "x"]))
    assert _complaint(tmp_path, units.command([str(program)]).replace("%%", "%")) != ""


def _complaint(root, command: str) -> str:
    unit, runtime = root / "u.service", root / "run"
    unit.write_text(f"[Service]\nType=oneshot\nExecStart={command}\n")
    runtime.mkdir(mode=0o700, exist_ok=True)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(root), "XDG_RUNTIME_DIR": str(runtime)}
    argv = ["systemd-analyze", "--user", "verify", str(unit)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    return done.stderr
