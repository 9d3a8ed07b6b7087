"""A loop's runner that can't run is told of before a night begins: in a window nobody would read why."""

from __future__ import annotations

import sys

import pytest

from ralphd.cli import shipped
from ralphd.core.errors import UsageError


def test_the_runner_of_this_installation_can_run():
    shipped.check_runner()


def test_a_runner_that_is_broken_is_told_of_with_its_last_words(tmp_path):
    (tmp_path / "runner.py").write_text("import sys\n<<<<<<< HEAD\n")
    with pytest.raises(UsageError, match=r"the loops' runner can't run .*SyntaxError: invalid syntax"):
        shipped.check_runner((sys.executable, "-I"), str(tmp_path / "runner.py"))


def test_a_python_that_is_gone_is_told_of(tmp_path):
    with pytest.raises(UsageError, match="the loops' runner can't be started"):
        shipped.check_runner((str(tmp_path / "python"),))
