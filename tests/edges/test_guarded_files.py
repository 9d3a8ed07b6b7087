"""What agents did to the night repository's configuration and hooks is undone, but for what concerns them alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.repositories import git, head, night_of, repository

from ralphd.edges.night_repository import NightRepository


@pytest.fixture
def night(tmp_path: Path) -> NightRepository:
    made = night_of(repository(tmp_path / "repo"), tmp_path / "night")
    made.add_worktree(str(tmp_path / "one"), "ralphd/n1/one", head(tmp_path / "repo"))
    return made


def test_nothing_changed_nothing_put_back(night: NightRepository) -> None:
    assert night.put_back_guarded() == ()


def test_who_an_agent_is_stays(night: NightRepository, tmp_path: Path) -> None:
    git(tmp_path / "one", "config", "user.name", "Agent")
    git(tmp_path / "one", "config", "init.defaultBranch", "main")
    assert night.put_back_guarded() == ()
    assert git(night.git_dir, "config", "user.name") == "Agent"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.fsmonitor", "touch /tmp/owned"),
        ("core.hooksPath", "/tmp"),
        ("filter.x.clean", "sh"),
        ("include.path", "/tmp/x"),
        ("core.worktree", "/"),
        ("alias.status", "!sh"),
    ],
)
def test_what_git_would_run_or_mean_is_put_back(night: NightRepository, tmp_path: Path, key: str, value: str) -> None:
    before = night.fingerprint()
    git(tmp_path / "one", "config", "user.name", "Agent")
    git(tmp_path / "one", "config", "--file", f"{night.git_dir}/config", key, value)
    assert night.put_back_guarded() == ("config",)
    assert night.fingerprint() == before
    (aside,) = Path(night.at, "guarded-aside").iterdir()
    assert key.split(".", 1)[0] in aside.read_text()
    git(tmp_path / "one", "status")


@pytest.mark.parametrize("damage", ["[broken\n", "", None])
def test_a_damaged_or_missing_configuration_is_put_back(
    night: NightRepository, tmp_path: Path, damage: str | None
) -> None:
    config = Path(night.git_dir, "config")
    config.unlink()
    if damage is not None:
        config.write_text(damage)
    assert night.put_back_guarded() == ("config",)
    git(tmp_path / "one", "status")


def test_hooks_and_attributes_that_were_added_move_aside_and_no_link_is_followed(
    night: NightRepository, tmp_path: Path
) -> None:
    hooks, outside = Path(night.git_dir, "hooks"), tmp_path / "outside"
    outside.write_text("theirs")
    hooks.mkdir(exist_ok=True)
    (hooks / "post-commit").write_text("#!/bin/sh\ntouch /tmp/owned\n")
    (hooks / "pre-commit").symlink_to(outside)
    Path(night.git_dir, "info").mkdir(exist_ok=True)
    Path(night.git_dir, "info", "attributes").write_text("* filter=x\n")
    assert night.put_back_guarded() == ("hooks/post-commit", "hooks/pre-commit", "info/attributes")
    assert not list(hooks.glob("p*-commit"))
    assert outside.read_text() == "theirs"
    assert night.put_back_guarded() == ()


def test_a_night_that_kept_nothing_is_left_as_it_is(night: NightRepository) -> None:
    shutil.rmtree(Path(night.at, "guarded"))
    Path(night.git_dir, "config").write_text("[core]\n\tfsmonitor = sh\n")
    assert night.put_back_guarded() == ()
