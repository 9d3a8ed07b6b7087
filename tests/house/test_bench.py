"""scripts/bench at its smallest: it measures something, says what the goals say of it, and leaves nothing."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def bench(*args: str, tmp: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "bench"), *args],
        env={**os.environ, "TMPDIR": str(tmp)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def table():
    spec = importlib.util.spec_from_file_location("bench_table", SCRIPTS / "benchmarks" / "table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_turn_is_measured_against_a_bare_loop_and_nothing_is_left(tmp_path) -> None:
    done = bench("turn", "--runs", "1", "--json", tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    middle, p99, cpu = rows
    for row in (middle, p99):
        assert row["goal"] > 0
        assert 0 < row["bare"] < math.inf
        assert 0 < row["ours"] < math.inf
        assert math.isclose(row["judged"][0], row["ours"] - row["bare"])
        assert row["verdict"] in {"reached", "missed", "noisy"}
    assert p99["ours"] >= middle["ours"]
    assert cpu["ours"] > 0
    assert not any(tmp_path.iterdir())


def test_an_unknown_bench_is_refused_with_the_list(tmp_path) -> None:
    done = bench("speed", tmp=tmp_path)
    assert done.returncode == 2
    assert "no such bench: speed; there are turn, memory, guard, status, start, adopt, progress, night" in done.stderr


def test_rounds_that_disagree_are_called_noisy() -> None:
    def verdict(*judged: float, at_least: bool = False) -> str:
        return table().Row(what="", unit="", ours=0.0, judged=judged, goal=5.0, at_least=at_least).verdict

    assert verdict(4.0, 4.5, 5.0) == "reached"
    assert verdict(6.0, 7.0) == "missed"
    assert verdict(4.0, 7.0) == "noisy"
    assert verdict(4.0, 4.0, 4.0, 4.0, 90.0) == "reached"
    assert verdict(96.0, 97.0, at_least=True) == "reached"
    assert verdict(4.0, 4.5, at_least=True) == "missed"


def test_a_busy_machine_proves_no_time_missed_but_memory() -> None:
    def verdict(unit: str, *, busy: bool, judged: float = 9.0) -> str:
        return table().Row(what="", unit=unit, ours=0.0, judged=(judged,), goal=5.0, busy=busy).verdict

    assert verdict("ms", busy=True) == "noisy"
    assert verdict("ms", busy=False) == "missed"
    assert verdict("MiB", busy=True) == "missed"
    assert verdict("ms", busy=True, judged=4.0) == "reached"


def test_a_table_stands_its_figures_side_by_side() -> None:
    row = table().Row(what="turn", unit="ms", ours=3.456, bare=1.0, judged=(2.0, 3.0), judged_as="over", goal=5.0)
    head, line = table().render("bench", [row]).splitlines()
    assert head.split() == "bench unit ralphd baseline judged: median (min to max) goal verdict".split()
    assert line.split() == "turn ms 3.46 1 over 2.5 (2 to 3) <= 5 reached".split()
