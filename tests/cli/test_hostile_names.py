"""No name that somebody gives leads out of where it belongs, or means anything to a shell, git or tmux."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from support.hostile_names import hostile_names
from support.repositories import everything, linked, night_of, repository

from ralphd.cli.nightfolders import loop_folder, newest_night
from ralphd.cli.place import Place as State
from ralphd.core import actions, policy
from ralphd.core.configfile import read
from ralphd.core.errors import ConfigError, NothingRunning, TmuxError
from ralphd.core.model import is_loop_id
from ralphd.core.state import NightState
from ralphd.core.worktrees import is_branch
from ralphd.edges.judge import _read
from ralphd.edges.tmux_script import refuse_bad_names
from ralphd.pane.files import lay
from ralphd.pane.worktree import Place, _include

COUNT = 10_000
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.fixture(scope="module")
def names() -> list[str]:
    found = list(hostile_names(COUNT, seed=4711))
    assert len(found) == COUNT
    assert sum("/" in name for name in found) > 1000 < sum(".." in name for name in found)
    return found


def plain(name: str) -> bool:
    return 0 < len(name) <= 40 and set(name) <= LETTERS


def test_an_id_is_forty_plain_letters_at_most(names: list[str]) -> None:
    assert [name for name in names if is_loop_id(name) != plain(name)] == []
    assert [name for name in names if is_branch(f"ralphd/2026-12-01-a/{name}") != plain(name)] == []


def test_no_name_finds_a_folder_that_is_not_a_loops_or_a_nights(names: list[str], tmp_path: Path) -> None:
    state = State(state=str(tmp_path / "state"))
    for name in ("2026-12-01-a/loops/loop-1/logs", "2026-12-01-a/loops/used"):
        (tmp_path / "state" / "nights" / name).mkdir(parents=True)
    for above in ("..", "logs", ".git"):
        (tmp_path / above).mkdir(exist_ok=True)
    night = newest_night(state)
    found = {}
    for name in names:
        with contextlib.suppress(NothingRunning):
            found[name] = loop_folder(night, name)
        with contextlib.suppress(NothingRunning):
            assert newest_night(state, name) == night
            assert name == ""
    assert found == {name: os.path.join(night, "loops", name) for name in ("loop-1", "used")}


def test_the_daemon_acts_on_no_loop_that_it_does_not_have(names: list[str]) -> None:
    night = NightState()
    assert [name for name in names if not policy.vet(night, actions.Pause(loop=name))] == []


def test_tmux_is_told_no_window_name_that_it_could_expand(names: list[str]) -> None:
    taken = []
    for name in names:
        with contextlib.suppress(TmuxError):
            refuse_bad_names([name])
            taken.append(name)
    assert [name for name in taken if not plain(name)] == []
    assert "loop-1" in taken
    assert "night" not in taken


def test_a_task_has_a_plain_name(names: list[str]) -> None:
    taken = []
    for name in dict.fromkeys(names):
        quoted = "".join(f"\\U{ord(char):08X}" for char in name)  # a lone surrogate isn't TOML at all
        with contextlib.suppress(ConfigError):
            read(f'[[task]]\nname = "{quoted}"\n')
            taken.append(name)
    assert [name for name in taken if not plain(name) or name.startswith("-")] == []
    assert "loop-1" in taken


def test_a_score_is_read_from_the_candidates_tree_alone(names: list[str], tmp_path: Path) -> None:
    tree = tmp_path / "bench" / "tree"
    tree.mkdir(parents=True)
    outside = [tmp_path / "secret", tmp_path / "bench" / "secret"]
    for path in outside:
        path.write_text("outside")
    (tree / "secret").write_text("inside")
    (tree / "way-out").symlink_to(tmp_path)
    asked = [*names, *(f"{name}/secret" for name in names), "way-out/secret", *map(str, outside)]
    read_at_all = {data for name in asked for data in [_read(str(tree), name)] if data is not None}
    assert read_at_all == {b"inside"}


def test_an_include_copies_nothing_from_outside_to_nowhere_else(names: list[str], tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (tmp_path / "secret").write_text("outside")
    (repo / "way-out").symlink_to(tmp_path)
    night = night_of(repo, tmp_path / "night")
    linked(night, tmp_path / "one")
    place = Place(worktree=str(tmp_path / "one"), git_dir=night.git_dir, branch="ralphd/n1/one", source=str(repo))
    before = everything(tmp_path)
    for name in [*names[:2000], *(f"{name}/secret" for name in names[:2000]), "way-out", "way-out/secret"]:
        assert list(_include(place, name)), name
    assert everything(tmp_path) == before


def test_an_adapters_file_lies_in_its_folder(names: list[str], tmp_path: Path) -> None:
    from ralphd.agents import File

    home = tmp_path / "agent"
    home.mkdir()
    for name in names[:2000]:
        with contextlib.suppress(ValueError, OSError):  # too long a name, too
            lay(str(home), (File(path=name, text="x"),))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent"]
