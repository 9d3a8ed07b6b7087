"""A whole night of a user who isn't root, on a machine where root has one: both work, and neither meets the other."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.counting import TOML, counting_repository
from support.mounts import seen_at
from support.needs import missing
from support.nightbox import NightBox, night_box

from ralphd.core import records

NOBODY = 65534
CODE = Path(__file__).parents[2]
# Where a program may leave something though nobody told it to.
SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/run")


class OtherBox(NightBox):
    """Whatever a person does in it, that user does; `interpreter` is a Python that they may run."""

    interpreter: Path

    def ralphd(
        self, *arguments: str, code: int | None = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.interpreter, "-P", "-m", "ralphd", *arguments],
            cwd=cwd or self.repo,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        )
        if code is not None and done.returncode != code:
            raise AssertionError(f"ralphd {arguments}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.log()}")
        return done


def give(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.fixture
def box() -> Iterator[OtherBox]:
    """With a home of its own, beside which root's are closed; the code is mounted where that user can read it."""
    if os.geteuid() != 0:
        missing("only root can become somebody else")
    root = Path(tempfile.mkdtemp(prefix="other-"))
    try:
        with contextlib.ExitStack() as stack:
            python = stack.enter_context(seen_at(Path(sys.base_prefix), root / "python"))
            code = stack.enter_context(seen_at(CODE, root / "code"))
            modules = stack.enter_context(seen_at(Path(sysconfig.get_path("purelib")), root / "modules"))
            repo = counting_repository(root / "repo")
            box = OtherBox(root, root / "state", repo)
            box.interpreter = python / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
            box.env["PYTHONPATH"] = f"{code}:{modules}"
            box.configure(TOML)
            give(box.home)
            give(repo)
            os.chown(root, NOBODY, NOBODY)
            try:
                yield box
                box.assert_nothing_left()
            finally:
                box.clean_up()
    finally:
        if str(root) not in Path("/proc/self/mounts").read_text():  # or what is mounted there would go too
            shutil.rmtree(root)


def of_nobody(without: Path, mine: Path) -> set[str]:
    """Every file of that user outside of their own folder, and of those of other tests, which run meanwhile."""
    found = set()

    def is_looked_at(path: Path) -> bool:
        of_tests = any(parent.name.startswith("pytest-of-") for parent in path.parents)
        return path != without and (not of_tests or path in mine.parents or path == mine or mine in path.parents)

    for top in SHARED:
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if is_looked_at(Path(folder, name))]
            for name in (*folders, *files):
                with contextlib.suppress(OSError):
                    if os.lstat(os.path.join(folder, name)).st_uid == NOBODY:
                        found.add(os.path.join(folder, name))
    return found


@pytest.mark.slow
def test_a_night_of_another_user_beside_roots(box: OtherBox, tmp_path: Path) -> None:
    with night_box(tmp_path, counting_repository(tmp_path / "repo")) as roots:
        roots.configure(TOML)
        roots.start()
        daemon, runners, before = roots.daemon_pid(), roots.runners(), of_nobody(box.root, tmp_path)
        box.start()
        assert os.stat(f"/proc/{box.daemon_pid()}").st_uid == NOBODY
        ended = roots.wait_for(records.TrajectoryEnded)
        box.wait_for(records.TrajectoryEnded, 4)
        roots.wait_for(records.TrajectoryEnded, len(ended) + 2)
        assert {row["state"] for row in box.loops().values()} == {"running"}
        assert all(os.stat(f"/proc/{pid}").st_uid == NOBODY for pid in box.runners().values())
        box.stop()
        box.assert_nothing_left()
        report = box.report()
        assert report["totals"]["hours"] is not None
        assert set(report["outcomes"]) <= {"done.next", "done.stopped"}
        assert report["tasks"][0]["best"]["score"] >= 1
        assert box.ralphd("take", "best").returncode == 0
        assert of_nobody(box.root, tmp_path) == before
        assert not [path for path in box.state.rglob("*") if path.lstat().st_uid != NOBODY]
        assert (roots.daemon_pid(), roots.runners()) == (daemon, runners)
        assert box.status_code() == 3
        assert {row["state"] for row in roots.loops().values()} == {"running"}
        roots.stop("--now")
