"""scripts/bench at its smallest: it measures something, says what the goals say of it, and leaves nothing."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.repositories import git

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def bench(*args: str, tmp: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "bench"), *args],
        env={**os.environ, "TMPDIR": str(tmp)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def part(name: str):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", SCRIPTS / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def table():
    return part("table")


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


def test_to_a_perfect_supervisor_a_fault_costs_its_session_and_its_limit_and_no_more() -> None:
    fates = part("fates")
    limits = fates.Limits(quiet_s=3.0, tool_s=2.0, retry_after_s=0.5, result_grace_s=1.0)
    faults = ("", "crash", "silent-hang", "hung-tool", "rate-limit", "hang-after-result", "")
    drawn = [fates.Draw(seconds=1.0, fault=fault) for fault in faults]
    costs = [1.0, 0.5, 0.3 + 3.0, 1.0 + 2.0, 0.2 + 0.5, 1.0 + 1.0, 1.0]
    assert [fates.cost_s(draw, limits) for draw in drawn] == pytest.approx(costs)
    # healthy ones commit 0.6 s after their start; a hung tool costs its limit before the work is done
    for committed, points in ((0.6, 1), (4.8 + 0.6 + 2.0, 2), (7.8 + 0.7 + 0.6, 3), (8.5 + 2.0 + 0.6, 4)):
        assert fates.perfect(drawn, committed - 0.01, limits) == points - 1
        assert fates.perfect(drawn, committed + 0.01, limits) == points
    with pytest.raises(ValueError, match="too few sessions"):
        fates.perfect(drawn, 60.0, limits)


def test_a_branch_that_is_only_set_back_earns_nothing() -> None:
    fates = part("fates")
    assert not fates.Draw(seconds=1.0, fault="moved-branch", chance=0.2).earns
    assert fates.Draw(seconds=1.0, fault="moved-branch", chance=0.7).earns


def test_every_contestant_has_the_same_draws_and_each_kind_of_fault_comes() -> None:
    fates = part("fates")

    def first(seed: int, loop: int, **more: object) -> list:
        return list(itertools.islice(fates.draws(seed, loop, **more), 3000))

    assert first(1, 1) == first(1, 1)
    assert first(1, 1) != first(1, 2)
    assert first(1, 1) != first(2, 1)
    assert {draw.fault for draw in first(1, 1)} == {"", *fates.FAULTS}
    assert not any(draw.fault for draw in first(1, 1, faulty=0.0))
    assert {draw.fault for draw in first(1, 1, among=["crash"])} == {"", "crash"}


def test_every_fault_is_one_that_the_stub_agent_can_suffer() -> None:
    assert list(part("stub_agent").DEEDS) == list(part("fates").FAULTS)


def test_the_truth_of_a_branch_is_its_best_commit_that_left_the_verifier_alone(tmp_path) -> None:
    module = part("truth")

    def commit(message: str, **files: str) -> None:
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", message)

    def nonce(number: int) -> str:
        tries = (str(n) for n in itertools.count())
        return next(n for n in tries if hashlib.sha256(f"{number} {n}".encode()).hexdigest().startswith("00"))

    git(tmp_path, "init", "-q", "-b", "main")
    one, two, three = (nonce(number) + "\n" for number in range(3))
    commit("begin", score_py="judge", found_txt="")
    commit("one", found_txt=one)
    commit("two", found_txt=one + two)
    commit("tampered", score_py="be kind", found_txt=one + two + three)
    commit("broken", score_py="judge", found_txt="poison\n" + two)
    found = module.truth(str(tmp_path / ".git"), ("main", "no-such-branch"), os.environ)
    assert found.points == 2
    assert module.truth(str(tmp_path / ".git"), ("no-such-branch",), os.environ).points == 0
    kept = git(tmp_path, "rev-parse", "main~2")
    git(tmp_path, "reset", "-q", "--hard", "main~3")
    of_branch = module.truth(str(tmp_path / ".git"), ("main",), os.environ)
    assert of_branch.points == 1
    assert module.truth(str(tmp_path / ".git"), ("main",), os.environ, kept=kept).points == 2
    assert [module.worth(str(tmp_path / ".git"), name, "main", os.environ) for name in ("main", kept)] == [1, 2]
    tampered = git(tmp_path, "rev-list", "--all", "--reflog", "--grep=tampered")
    assert module.worth(str(tmp_path / ".git"), tampered, "main", os.environ) == 0


@pytest.mark.slow
def test_a_tiny_night_is_shared_out_between_what_was_kept_and_what_could_be(tmp_path) -> None:
    done = bench("night", "--only", "crash", "--loops", "2", "--seconds", "5", "--json", tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    kept, stuck, wrong = json.loads(done.stdout)["rows"]
    assert 0 < kept["ours"] <= kept["bare"] + 1  # a commit under way at the end
    assert kept["judged"] == [100 * kept["ours"] / kept["bare"]]
    assert kept["verdict"] in {"reached", "missed", "noisy"}
    assert (stuck["ours"], wrong["ours"]) == (0, 0)
    assert "lost to crash" in done.stderr
    assert not any(tmp_path.iterdir())


def test_an_unknown_fault_is_refused_with_the_list(tmp_path) -> None:
    done = bench("night", "--only", "flood", tmp=tmp_path)
    assert done.returncode == 1
    assert "no such fault: flood; there are overload, rate-limit, crash" in done.stderr
