"""Verifiers over real candidates in real benches: scores, tampering, limits, setup, and candidates that play foul."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ralphd.core.model import Candidate, Task, Verdict, Verifier
from ralphd.core.outcomes import Kind
from ralphd.edges.checkout import describe_repo
from ralphd.edges.judge import Verifiers
from ralphd.edges.night_repository import NightRepository

GUARDED = Path(__file__).parents[2] / "ralphd" / "pane" / "guarded.py"
JUNIT = (
    "printf '<testsuite><testcase/><testcase>%s</testcase><testcase><skipped/></testcase></testsuite>' "
    '"$(cat second)" > report.xml; test ! -s second'
)


def git(repo: Path, *args: str) -> str:
    who = {f"GIT_{role}_{what}": "t@t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, **who}
    return subprocess.run(["git", *args], cwd=repo, env=env, check=True, capture_output=True, text=True).stdout.strip()


class Box:
    """A repository, its night, and a verifier to be judged by."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp = tmp_path
        self.repo = tmp_path / "repo"
        self.repo.mkdir()
        git(self.repo, "init", "-q", "-b", "main")
        self.base = self.commit({"value": "1", "tests/check": "echo 3", "second": "<failure/>"})
        self.judges: list[Verifiers] = []
        self.night()

    def commit(self, files: dict[str, str]) -> str:
        for name, text in files.items():
            path = self.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(self.repo, "add", "-A", "-f")
        git(self.repo, "commit", "-q", "--allow-empty", "-m", "x")
        made = git(self.repo, "rev-parse", "HEAD")
        if (self.tmp / "night").exists():
            git(self.repo, "push", "-q", "-f", str(self.tmp / "night" / "repo.git"), "HEAD:refs/heads/candidate")
        return made

    def night(self) -> str:
        at = self.tmp / "night"
        if not at.exists():
            NightRepository.create(describe_repo(str(self.repo)), str(at), self.base)
        return str(at)

    def judge(self, commit: str, base: Verdict | None = None, **verifier: object) -> Verdict:
        task = Task(
            name="main", repository=str(self.repo), night_repository=self.night(), prompt="", base=self.base,
            verifier=Verifier(**verifier),  # type: ignore[arg-type]
        )  # fmt: skip
        if not self.judges:
            env = {"PATH": os.environ["PATH"], "HOME": str(self.tmp)}
            self.judges.append(Verifiers(str(self.tmp / "folder"), [sys.executable, "-ISE", str(GUARDED)], env))
        candidate = Candidate(task="main", loop="l1", generation=1, trajectory=1, commit=commit, tree="")
        return self.judges[0].judge(task, candidate, base)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_exit_status_is_a_score(box: Box) -> None:
    good = box.judge(box.base, command="grep -q 1 value")
    bad = box.judge(box.base, command="grep -q 2 value")
    assert (good.score, good.passed, good.kind) == (1.0, True, None)
    assert (bad.score, bad.passed, bad.kind) == (0.0, False, None)
    assert good.tree == git(box.repo, "rev-parse", f"{box.base}^{{tree}}")


def test_a_number_in_the_output_is_a_score(box: Box) -> None:
    verdict = box.judge(box.base, command="echo score 7; echo score 2.5", score=r"regex:score ([\d.]+)", goal=2.0)
    assert (verdict.score, verdict.passed) == (2.5, True)


def test_a_number_in_a_file_is_a_score(box: Box) -> None:
    command = """echo '{"a":{"b/c":[1, -4]}}' > out.json"""
    verdict = box.judge(box.base, command=command, score="json:out.json#/a/b~1c/1", direction="min", goal=-4)
    assert (verdict.score, verdict.passed) == (-4.0, True)


def test_junit_counts_tests_that_ran_and_never_fewer_than_the_base(box: Box) -> None:
    base = box.judge(box.base, command=JUNIT, score="junit:report.xml")
    assert (base.score, base.passed) == (0.5, False)
    assert base.counts == {"tests": 3, "passed": 1, "failed": 1, "errors": 0, "skipped": 1}
    skipping = box.commit({"second": "<skipped/>"})
    assert box.judge(skipping, base, command=JUNIT, score="junit:report.xml").score == 0.5
    fixed = box.commit({"second": ""})
    verdict = box.judge(fixed, base, command=JUNIT, score="junit:report.xml")
    assert (verdict.score, verdict.passed) == (1.0, True)


@pytest.mark.parametrize(
    ("score", "command", "why"),
    [
        ("regex:x(\\d)", "echo nothing", "nothing that matches"),
        ("json:out.json", "true", "wrote no out.json"),
        ("json:out.json#/a", "echo '{}' > out.json", "out.json#/a"),
        ("json:out.json", "ln -s /etc/passwd out.json", "wrote no out.json"),
        ("json:out.json", "mkfifo out.json", "wrote no out.json"),
        ("json:out.json", "echo NaN > out.json", "no number"),
        ("junit:r.xml", "echo '<!DOCTYPE x><testsuite/>' > r.xml", "document type"),
        ("junit:r.xml", "echo '<testsuite/>' > r.xml", "no test"),
        ("junit:r.xml", "echo junk > r.xml", "no JUnit"),
        ("exit", "no-such-program-here", "can't run"),
        ("exit", "kill -9 $$", "died of signal 9"),
    ],
)
def test_no_score_is_a_typed_failure_with_its_reason(box: Box, score: str, command: str, why: str) -> None:
    verdict = box.judge(box.base, command=command, score=score)
    assert verdict.kind is Kind.VERIFY_FAILED
    assert verdict.score is None or score == "exit"
    assert why in verdict.why


def test_limits_are_typed(box: Box) -> None:
    assert box.judge(box.base, command="sleep 60", seconds=0.5).kind is Kind.VERIFY_TIMEOUT
    hog = f"{sys.executable} -c 'x = bytearray(300 << 20); import time; time.sleep(60)'"
    assert box.judge(box.base, command=hog, memory_bytes=100 << 20).kind is Kind.VERIFY_MEMORY


def test_protected_paths_are_restored_and_a_change_is_tampering_whatever_it_scores(box: Box) -> None:
    cheat = box.commit({"tests/check": "echo 999", "tests/conftest": "new"})
    command, score = "sh tests/check; ls tests", r"regex:(\d+)"
    verdict = box.judge(cheat, command=command, score=score, protect=("tests/**",))
    assert verdict.kind is Kind.TAMPERED
    assert verdict.score == 3.0
    assert verdict.tampered == ("tests/check", "tests/conftest")
    assert not verdict.passed
    honest = box.commit({"tests/check": "echo 3", "value": "2"})
    git(box.repo, "rm", "-q", "tests/conftest")
    honest = box.commit({})
    assert box.judge(honest, command=command, score=score, protect=("tests/**",)).kind is None


def test_nothing_of_one_verification_is_left_for_the_next(box: Box) -> None:
    command = "test ! -e planted && test ! -e .cache/x; s=$?; mkdir -p .cache; touch planted .cache/x; exit $s"
    assert box.judge(box.base, command=command).passed
    assert box.judge(box.base, command=command).passed


def test_a_setup_runs_once_and_each_candidate_starts_from_it(box: Box) -> None:
    count = box.tmp / "count"
    setup = f"echo made > built; echo x >> {count}"
    for _ in range(3):
        verdict = box.judge(
            box.base, command="grep -q made built; s=$?; echo spoilt > built; exit $s", setup=setup, slots=1
        )
        assert verdict.passed
    assert count.read_text() == "x\n"


def test_a_failing_setup_is_told_as_one(box: Box) -> None:
    verdict = box.judge(box.base, command="true", setup="echo no compiler >&2; exit 3")
    assert verdict.kind is Kind.VERIFY_FAILED
    assert verdict.why.startswith("setup: ")


def test_what_a_verifier_leaves_running_is_ended(box: Box) -> None:
    verdict = box.judge(box.base, command="setsid sleep 1000 & echo $! > pid; cp pid /proc/self/cwd/../pid")
    assert verdict.passed
    pid = int((next((box.tmp / "folder" / "benches").iterdir()) / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1]


def test_a_guard_that_its_command_stopped_is_ended_and_typed(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ralphd.edges.judge.GUARD_PATIENCE_S", 0.5)
    verdict = box.judge(box.base, command="kill -STOP $PPID; exit 0", seconds=0.5)
    assert verdict.kind is Kind.VERIFY_FAILED
    assert "SIGKILL" in verdict.why
    assert verdict.cut_off
    assert not box.judge(box.base, command="kill -KILL $$").cut_off


def test_a_commit_that_is_not_there_is_a_verdict_not_a_crash(box: Box) -> None:
    verdict = box.judge("f" * 40, command="true")
    assert verdict.kind is Kind.VERIFY_FAILED
    assert "bench" in verdict.why
