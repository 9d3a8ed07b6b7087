"""The planted project is a real repository whose verifier tells every set of fixed bugs by its count."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import combinations

import pytest
from support import planted
from support.planted import BUGS, Bug, Planted


@pytest.fixture(scope="module")
def project() -> Iterator[Planted]:
    with tempfile.TemporaryDirectory() as folder:
        yield planted.plant(os.path.join(folder, "project"))


def state(project: Planted, fixed: tuple[Bug, ...]) -> planted.Verdict:
    """What the verifier says of the project with these bugs fixed and the others planted."""
    planted.git(project.repo, "checkout", "-q", "--", ".")
    for bug in fixed:
        planted.fix(project.repo, bug)
    return planted.verify(project.repo)


def test_all_bugs_show_in_a_fresh_project(project: Planted) -> None:
    verdict = state(project, ())
    assert verdict.failed == {test for bug in BUGS for test in bug.tests}
    assert verdict.passed == planted.expected_passed(())


def test_nothing_fails_once_all_are_fixed(project: Planted) -> None:
    verdict = state(project, BUGS)
    assert (verdict.failed, verdict.passed) == (frozenset(), planted.ALL_PASSED)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_fix_repairs_its_own_tests_and_no_others(project: Planted, bug: Bug) -> None:
    verdict = state(project, (bug,))
    assert verdict.failed == {test for other in BUGS if other is not bug for test in other.tests}
    assert verdict.passed == planted.expected_passed((bug,))


def test_the_bugs_share_no_test() -> None:
    assert not any(set(one.tests) & set(other.tests) for one, other in combinations(BUGS, 2))
    assert len(BUGS) == 5
    assert all(bug.tests for bug in BUGS)


def test_a_bug_and_its_fix_can_be_told_apart() -> None:
    """Neither holds the other, or replacing would find the wrong one."""
    assert not any(bug.broken in bug.fixed or bug.fixed in bug.broken for bug in BUGS)


def test_the_repository_is_clean_and_the_same_every_time(project: Planted, tmp_path: os.PathLike[str]) -> None:
    state(project, ())
    assert planted.git(project.repo, "status", "--porcelain") == ""
    assert planted.plant(os.path.join(tmp_path, "again")).commit == project.commit


def test_the_verifier_is_one_shell_command(project: Planted) -> None:
    planted.git(project.repo, "checkout", "-q", "--", ".")
    command = planted.verifier(sys.executable)
    done = subprocess.run(["/bin/sh", "-c", command], cwd=project.repo, capture_output=True, check=False)
    assert done.returncode == 1
    assert planted.read_report(os.path.join(project.repo, planted.REPORT)).passed == planted.expected_passed(())


def test_the_cheat_gains_a_test_and_mends_nothing(project: Planted) -> None:
    state(project, ())
    cheat = planted.CHEAT
    planted.replace_once(os.path.join(project.repo, cheat.file), cheat.honest, cheat.dishonest)
    verdict = planted.verify(project.repo)
    assert verdict.passed == planted.expected_passed((cheat.bug,))
    planted.git(project.repo, "checkout", "-q", "--", "tests")
    assert planted.verify(project.repo).passed == planted.expected_passed(())


def test_a_bug_that_is_not_there_is_not_fixed_silently(project: Planted) -> None:
    state(project, (BUGS[0],))
    with pytest.raises(AssertionError, match="occurs 0 times"):
        planted.fix(project.repo, BUGS[0])
