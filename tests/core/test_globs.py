"""Patterns name what a person who wrote them meant."""

from __future__ import annotations

import pytest

from ralphd.core.globs import matches


@pytest.mark.parametrize(
    ("path", "glob"),
    [
        ("tests/a.py", "tests/**"),
        ("tests/deep/er/a.py", "tests/**"),
        ("tests", "tests/**"),  # a link put in the folder's place
        ("tests/a.py", "tests"),
        ("sub/tests/a.py", "tests"),
        ("sub/tests/a.py", "tests/"),
        ("a.py", "*.py"),
        ("deep/a.py", "*.py"),
        ("src/a/b/c/conftest.py", "**/conftest.py"),
        ("conftest.py", "**/conftest.py"),
        ("a/x/y/b", "a/**/b"),
        ("a/b", "a/**/b"),
        ("score.py", "./score.py"),
        ("score.py", "/score.py"),
        ("tests/we\nird/\udcff.py", "tests/**"),
        ("d/[x]", "d/[[]x]"),
        ("anything/at/all", "**"),
    ],
)
def test_named(path: str, glob: str) -> None:
    assert matches(path, ["nothing", glob])


@pytest.mark.parametrize(
    ("path", "glob"),
    [
        ("sub/tests/a.py", "tests/**"),
        ("sub/score.py", "/score.py"),
        ("tests2/a.py", "tests/**"),
        ("a.pyc", "*.py"),
        ("src/deep/a.py", "src/*.py"),
        ("Tests/a.py", "tests/**"),
        ("a", ""),
        ("a", "/"),
        ("a/b", "a/b/c"),
    ],
)
def test_not_named(path: str, glob: str) -> None:
    assert not matches(path, [glob])


def test_many_stars_cost_no_backtracking() -> None:
    """A pattern made to blow up a recursive matcher ends at once."""
    assert not matches("/".join("a" * 200), ["/".join(["**", "a"] * 60) + "/b"])
