"""What does a real project with five real bugs look like, and what is each state of it worth?

The project is more-itertools as published on PyPI: pure Python, ships its tests, needs no build. Its recipes are broken
in five independent places; the project's own tests notice each one. The verifier runs the recipes' tests (about a second).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from support.needs import missing

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROJECT, VERSION = "more-itertools", "10.5.0"
SDIST = f"{PROJECT}-{VERSION}.tar.gz"
SHA256 = "5482bfef7849c25dc3c6dd53a6173ae4795da2a41a80faea6700d9f5846c5da6"
TESTS = "tests/test_recipes.py"
REPORT = "report.xml"
ALL_PASSED = 129  # of that file in 10.5.0 with nothing broken; one more is skipped
IGNORED = f"__pycache__/\n{REPORT}\n"
WHEN = "2026-01-01T00:00:00Z"  # the same commit ids every time


@dataclass(frozen=True, kw_only=True)
class Bug:
    """One planted bug: replacing `broken` by `fixed` in `file` repairs it and the `tests` that fail until then."""

    name: str
    file: str
    broken: str
    fixed: str
    tests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """The repository with all bugs in it, its one commit, and the bugs."""

    repo: str
    commit: str
    bugs: tuple[Bug, ...]


def _bug(name: str, *, broken: str, fixed: str, tests: Sequence[str]) -> Bug:
    nodes = tuple(f"{TESTS}::{test}" for test in tests)
    return Bug(name=name, file="more_itertools/recipes.py", broken=broken, fixed=fixed, tests=nodes)


BUGS = (
    _bug(
        "tail",
        fixed="islice(iterable, max(0, len(iterable) - n), None)",
        broken="islice(iterable, len(iterable) - n, None)",
        tests=["TailTests::test_sized_less"],
    ),
    _bug(
        "roundrobin",
        fixed="range(len(iterables), 0, -1)",
        broken="range(len(iterables), 1, -1)",
        tests=["RoundrobinTests::test_uneven_groups"],
    ),
    _bug(
        "convolve",
        fixed="chain(signal, repeat(0, n - 1))",
        broken="chain(signal, repeat(0, n))",
        tests=[
            "Convolvetests::test_moving_average",
            "Convolvetests::test_derivative",
            "PolynomialFromRootsTests::test_basic",
        ],
    ),
    _bug(
        "derivative",
        fixed="powers = reversed(range(1, n))",
        broken="powers = reversed(range(n))",
        tests=["PolynomialDerivativeTests::test_basic"],
    ),
    _bug(
        "totient",
        fixed="for prime in set(factor(n)):",
        broken="for prime in factor(n):",
        tests=["TotientTests::test_basic"],
    ),
)


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """An edit of a test that makes it pass over its bug; it gains one test where nobody restores the file."""

    file: str
    honest: str
    dishonest: str
    bug: Bug


CHEAT = Cheat(
    file=TESTS,
    honest="self.assertEqual(mi.totient(n), expected)",
    dishonest="self.assertEqual(mi.totient(n), mi.totient(n))",
    bug=BUGS[-1],
)


def plant(directory: str) -> Planted:
    """Makes the repository in a new folder `directory`; skips or fails the test when the project can't be had."""
    _unpack(sdist(), directory)
    for bug in BUGS:
        replace_once(os.path.join(directory, bug.file), bug.fixed, bug.broken)
    with open(os.path.join(directory, ".gitignore"), "w", encoding="utf-8") as file:
        file.write(IGNORED)
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", f"Import {PROJECT} {VERSION}"]):
        git(directory, *command)
    return Planted(repo=directory, commit=git(directory, "rev-parse", "HEAD"), bugs=BUGS)


def verifier(python: str = sys.executable) -> str:
    """A shell command that writes JUnit XML to `report.xml` in the repository it runs in.

    Without what pytest has of ours (its plugins, words for a plain `assert`, tracebacks), which takes longer than the tests.
    """
    lean = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {shlex.quote(python)} -m pytest --assert=plain --tb=no"
    return f"{lean} -q -p no:cacheprovider --junitxml={REPORT} {TESTS}"


def expected_passed(fixed: Iterable[Bug]) -> int:
    """How many tests pass once exactly these bugs are fixed."""
    repaired = {bug.name for bug in fixed}
    return ALL_PASSED - len({test for bug in BUGS if bug.name not in repaired for test in bug.tests})


def fix(repo: str, bug: Bug) -> None:
    replace_once(os.path.join(repo, bug.file), bug.broken, bug.fixed)


def replace_once(path: str, old: str, new: str) -> None:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {path}, not once"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a JUnit report says: how many test cases passed, and the names of those that did not."""

    passed: int
    failed: frozenset[str]


def verify(repo: str) -> Verdict:
    """Runs the verifier in the repository and reads its report."""
    report = os.path.join(repo, REPORT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(report)
    subprocess.run(["/bin/sh", "-c", verifier()], cwd=repo, capture_output=True, check=False, env=_plain_environment())
    return read_report(report)


def read_report(path: str) -> Verdict:
    cases = list(ET.parse(path).iter("testcase"))
    failed = frozenset(
        _node(case) for case in cases if case.find("failure") is not None or case.find("error") is not None
    )
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Verdict(passed=len(cases) - skipped - len(failed), failed=failed)


def _node(case: ET.Element) -> str:
    return f"{TESTS}::{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"


def sdist() -> str:
    """The project's archive, fetched once with pip into `.cache/sdists` of the checkout and checked by its hash."""
    path = os.path.join(CHECKOUT, ".cache", "sdists", SDIST)
    if not os.path.exists(path):
        _fetch(path)
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    assert found == SHA256, f"{path} is not the {SDIST} these bugs were made for: SHA-256 {found}; delete it"
    return path


def _fetch(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as fresh:
        for pip in _pips():
            command = [
                *pip,
                "download",
                "-q",
                "--no-deps",
                "--no-binary",
                ":all:",
                "-d",
                fresh,
                f"{PROJECT}=={VERSION}",
            ]
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            if os.path.exists(os.path.join(fresh, SDIST)):
                os.replace(os.path.join(fresh, SDIST), path)
                return
    missing(f"{SDIST} is not in {os.path.dirname(path)} and pip can't fetch it from PyPI; put it there")


def _pips() -> Iterator[list[str]]:
    """Ways to run pip: an environment made by uv has none of its own."""
    pythons = (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin"))
    yield from ([python, "-m", "pip"] for python in pythons if python)
    if uv := shutil.which("uv"):
        yield [uv, "tool", "run", "pip"]


def _unpack(archive: str, directory: str) -> None:
    os.makedirs(directory)
    # Python 3.11.2, which Debian 12 has, knows no filters yet; the archive's hash was checked.
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name:
                tar.extract(member, directory, **safely)


def git(repo: str, *arguments: str) -> str:
    """Git with fixed people and dates, and nobody's configuration."""
    people = {f"GIT_{who}_{what}": value for who, (what, value) in itertools.product(("AUTHOR", "COMMITTER"), (
        ("NAME", "Test"), ("EMAIL", "test@example.org"), ("DATE", WHEN)))}  # fmt: skip
    apart = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", repo, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **people, **apart},
    )
    return done.stdout.strip()


def _plain_environment() -> dict[str, str]:
    """Without what pytest tells its children about the run that is going on."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GIT_"))}
