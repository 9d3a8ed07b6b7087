"""What a person is told where no night could run: another system, no /proc, or one that hides who asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from support.livenight import LiveNight
from support.needs import missing

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
VERBS = pytest.mark.parametrize("verb", ["doctor", "start", "demo"])
RUN = "import sys; from ralphd.cli import main; {}; sys.argv[0] = 'ralphd'; main.run()"
# Our own user stays root above: only what belongs to another user is hidden. The files that are needed are loaded
# before, because a checkout in /root is nobody else's.
STRANGER = "import os, ralphd.edges.machine; os.setgroups([]); os.setresgid(*[65534] * 3); os.setresuid(*[65534] * 3)"


@pytest.fixture
def bare(tmp_path):
    return LiveNight(tmp_path)


def ask(night: LiveNight, verb: str, before: str = "pass", mounting: str = "") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-c", RUN.format(before), verb]
    if mounting:
        if shutil.which("unshare") is None:
            missing("no unshare, so no mounts of its own")
        argv = ["unshare", "-m", "sh", "-c", f'{mounting} && exec "$@"', "sh", *argv]
    done = subprocess.run(argv, cwd=night.repo, env=night.env, capture_output=True, text=True, timeout=120, check=False)
    if mounting and done.stderr.startswith(("unshare:", "mount:", "umount:")):
        missing(f"no mounts here: {done.stderr}")
    return done


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a refusal."""
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line.removeprefix("ralphd: ")


@VERBS
def test_on_another_system_the_first_word_is_that_it_is_another(bare, verb):
    said = told(ask(bare, verb, "sys.platform = 'darwin'"))
    assert said == "ralphd needs Linux, and this is darwin; run it in a virtual machine or a container"


@ROOT
@VERBS
def test_without_proc_the_way_out_is_told(bare, verb):
    said = told(ask(bare, verb, mounting="umount -l /proc"))
    assert said == "/proc is not mounted here, or not whole, and ralphd needs it: mount -t proc proc /proc"


@ROOT
@pytest.mark.parametrize("options", ["hidepid=2", "hidepid=1"])
def test_where_nobody_could_be_identified_no_night_begins(bare, options):
    said = told(ask(bare, "start", STRANGER, f"mount -t proc -o {options} proc /proc"))
    assert said.startswith("/proc hides other users' processes (hidepid), so a night could not tell who steers it; ")
    assert not bare.state.exists()


@ROOT
@pytest.mark.parametrize(
    ("before", "options"), [("pass", "hidepid=2"), (STRANGER, "hidepid=2,gid=65534"), (STRANGER, "hidepid=0")]
)
def test_who_sees_all_is_not_held_up(bare, before, options):
    """Root, and whoever is in the group that the mount names."""
    done = ask(bare, "doctor", f"{before}; from ralphd.edges import machine; machine.check(); sys.exit(7)",
               f"mount -t proc -o {options} proc /proc")  # fmt: skip
    assert done.returncode == 7, done


@ROOT
def test_a_proc_without_the_kernels_own_files_is_not_enough(bare):
    said = told(ask(bare, "start", mounting="mount -t proc -o subset=pid proc /proc"))
    assert said.startswith("/proc is not mounted here, or not whole")
