"""What the machine is short of, and what is removed when the disk is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.mounts import fill, tmpfs

from ralphd.core.outcomes import Kind
from ralphd.edges import strain
from ralphd.edges.reclaim import LOGS_KEPT_S, reclaim


def a_machine(at: Path, *, full: str = "0.00", terminals: str = "3") -> str:
    (at / "pressure").mkdir(parents=True)
    (at / "pressure" / "memory").write_text(f"some avg10=90.00 avg60=0\nfull avg10={full} avg60=0.00 total=1\n")
    (at / "sys" / "kernel" / "pty").mkdir(parents=True)
    (at / "sys" / "kernel" / "pty" / "nr").write_text(f"{terminals}\n")
    (at / "sys" / "kernel" / "pty" / "max").write_text("100\n")
    return str(at)


def memory_and_limits(proc: str, tmp_path: Path) -> list[tuple[Kind, bool]]:
    found = strain.strains(str(tmp_path), proc)
    return [(one.kind, one.danger) for one in found if one.kind is not Kind.DISK_LOW]


def test_a_machine_with_room_has_no_strain(tmp_path: Path) -> None:
    assert memory_and_limits(a_machine(tmp_path / "proc"), tmp_path) == []
    assert memory_and_limits(str(tmp_path / "nothing is told"), tmp_path) == []


@pytest.mark.parametrize(("full", "danger"), [("20.00", False), ("75.10", True)])
def test_time_lost_for_want_of_memory_is_strain(tmp_path: Path, full: str, danger: bool) -> None:
    assert memory_and_limits(a_machine(tmp_path / "proc", full=full), tmp_path) == [(Kind.MEMORY_PRESSURE, danger)]


@pytest.mark.skipif(not os.path.exists("/proc/pressure/memory"), reason="this kernel tells no pressure (PSI)")
def test_the_pressure_that_this_very_kernel_tells_is_understood(tmp_path: Path) -> None:
    """Else a kernel with another format would never be under pressure."""
    said = Path("/proc/pressure/memory").read_text()
    stalled = strain._stalled("/proc/pressure/memory")
    assert stalled is not None, said
    assert 0.0 <= stalled <= 100.0
    proc = Path(a_machine(tmp_path / "proc"))
    (proc / "pressure" / "memory").write_text(re.sub(r"(full avg10=)[0-9.]+", r"\g<1>33.33", said))
    assert memory_and_limits(str(proc), tmp_path) == [(Kind.MEMORY_PRESSURE, False)]


def test_terminals_run_out(tmp_path: Path) -> None:
    assert memory_and_limits(a_machine(tmp_path / "proc", terminals="95"), tmp_path) == [(Kind.HOST_LIMITS, False)]


@pytest.mark.parametrize(
    ("free", "total", "found"),
    [
        (2 << 30, 100 << 30, []),
        (900 << 20, 100 << 30, [False]),
        (10 << 20, 100 << 30, [True]),
        (30 << 20, 200 << 20, []),
        (15 << 20, 200 << 20, [False]),
    ],
)
def test_a_low_disk_by_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, total: int, found: list[bool]
) -> None:
    real = os.statvfs(tmp_path)
    block = real.f_frsize
    fields = list(real)
    fields[2], fields[4] = total // block, free // block
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(fields))
    told = strain.strains(str(tmp_path), a_machine(tmp_path / "proc"))
    assert [one.danger for one in told if one.kind is Kind.DISK_LOW] == found


def test_worktrees_on_a_disk_of_their_own_are_looked_at_too(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "worktrees") as disk:
        filler = fill(disk)
        (found,) = (one for one in strain.strains(str(tmp_path)) if "worktrees" in one.words)
        assert (found.kind, found.danger) == (Kind.DISK_LOW, True)
        filler.unlink()
        assert not [one for one in strain.strains(str(tmp_path)) if "worktrees" in one.words]


def test_only_what_earlier_nights_left_and_nobody_needs_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("theirs")
    now = 2e9
    for night, age_s in (("old", LOGS_KEPT_S + 10), ("late", 60.0), ("now", 60.0)):
        at = tmp_path / "nights" / night
        for part in ("benches/main-1", "verdicts", "loops/a/spill", "loops/a/tmp", "loops/a/logs", "repositories/main"):
            (at / part).mkdir(parents=True)
            (at / part / "file").write_bytes(b"x" * 9000)
        (at / "loops" / "a" / "records.jsonl").write_text("{}")
        (at / "loops" / "b").mkdir()
        (at / "loops" / "b" / "spill").symlink_to(outside)
        os.utime(at / "loops" / "a", (now - age_s, now - age_s))
        os.utime(at / "loops" / "b", (now, now))
    (tmp_path / "worktrees" / "old" / "a").mkdir(parents=True)
    (tmp_path / "worktrees" / "old" / "a" / "unsaved").write_text("work")
    freed = reclaim(str(tmp_path), "now", now)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("file")}
    kept = ("verdicts/file", "repositories/main/file")
    everything = (*kept, "benches/main-1/file", "loops/a/spill/file", "loops/a/tmp/file", "loops/a/logs/file")
    assert left == {
        *(f"nights/now/{name}" for name in everything),
        *(f"nights/late/{name}" for name in (*kept, "loops/a/logs/file")),
        *(f"nights/old/{name}" for name in kept),
    }
    assert freed >= 7 * 9000
    assert (outside / "theirs").read_text() == "theirs"
    assert (tmp_path / "worktrees" / "old" / "a" / "unsaved").exists()
