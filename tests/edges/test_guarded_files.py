"""What agents did to the night repository's configuration and hooks is undone, but for what concerns them alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.repositories import git, head, linked, repository

from ralphd.edges.checkout import describe_repo
from ralphd.edges.night_repository import NightRepository

Back = Callable[[], tuple[str, ...]]


@pytest.fixture
def made(tmp_path: Path) -> tuple[NightRepository, str]:
    repo = repository(tmp_path / "repo")
    night, base = NightRepository.create(describe_repo(str(repo)), str(tmp_path / "night"), head(repo))
    linked(night, tmp_path / "one")
    return night, base.guarded


@pytest.fixture
def night(made: tuple[NightRepository, str]) -> NightRepository:
    return made[0]


@pytest.fixture
def back(made: tuple[NightRepository, str], tmp_path: Path) -> Back:
    """Put back what isn't as it was, as the daemon does."""
    seen: dict[str, tuple[int, ...]] = {}
    return lambda: made[0].put_back_guarded(made[1], str(tmp_path / "repo"), seen)


def test_nothing_changed_nothing_put_back(back: Back) -> None:
    assert back() == ()


def test_who_an_agent_is_stays(night: NightRepository, back: Back, tmp_path: Path) -> None:
    git(tmp_path / "one", "config", "user.name", "Agent")
    git(tmp_path / "one", "config", "init.defaultBranch", "main")
    assert back() == ()
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
def test_what_git_would_run_or_mean_is_put_back(
    night: NightRepository, back: Back, tmp_path: Path, key: str, value: str
) -> None:
    before = night.fingerprint()
    git(tmp_path / "one", "config", "user.name", "Agent")
    git(tmp_path / "one", "config", "--file", f"{night.git_dir}/config", key, value)
    assert back() == ("config",)
    assert night.fingerprint() == before
    (aside,) = Path(night.at, "guarded-aside").iterdir()
    assert key.split(".", 1)[0] in aside.read_text()
    git(tmp_path / "one", "status")


@pytest.mark.parametrize("damage", ["[broken\n", "", None])
def test_a_damaged_or_missing_configuration_is_put_back(
    night: NightRepository, back: Back, tmp_path: Path, damage: str | None
) -> None:
    config = Path(night.git_dir, "config")
    config.unlink()
    if damage is not None:
        config.write_text(damage)
    assert back() == ("config",)
    git(tmp_path / "one", "status")


def test_hooks_and_attributes_that_were_added_move_aside_and_no_link_is_followed(
    night: NightRepository, back: Back, tmp_path: Path
) -> None:
    hooks, outside = Path(night.git_dir, "hooks"), tmp_path / "outside"
    outside.write_text("theirs")
    hooks.mkdir(exist_ok=True)
    (hooks / "post-commit").write_text("#!/bin/sh\ntouch /tmp/owned\n")
    (hooks / "pre-commit").symlink_to(outside)
    Path(night.git_dir, "info").mkdir(exist_ok=True)
    Path(night.git_dir, "info", "attributes").write_text("* filter=x\n")
    assert back() == ("hooks/post-commit", "hooks/pre-commit", "info/attributes")
    assert not list(hooks.glob("p*-commit"))
    assert outside.read_text() == "theirs"
    assert back() == ()


def test_a_night_that_kept_nothing_is_left_as_it_is(night: NightRepository, tmp_path: Path) -> None:
    """It was begun by an older ralphd."""
    shutil.rmtree(night.kept)
    Path(night.git_dir, "config").write_text("[core]\n\tfsmonitor = sh\n")
    assert night.put_back_guarded("", str(tmp_path / "repo"), {}) == ()


@pytest.mark.parametrize("how", ["edited", "more", "gone"])
def test_copies_that_were_changed_too_are_not_believed_but_made_anew(
    night: NightRepository, back: Back, tmp_path: Path, how: str
) -> None:
    before = night.fingerprint()
    Path(night.git_dir, "config").write_text("[core]\n\tfsmonitor = sh\n")
    if how == "edited":
        shutil.copy(Path(night.git_dir, "config"), night.kept)
    elif how == "more":
        Path(night.kept, "hooks").mkdir()
        Path(night.kept, "hooks", "post-commit").write_text("#!/bin/sh\n")
    else:
        shutil.rmtree(night.kept)
    assert back() == ("config",)
    assert night.fingerprint() == before
    assert back() == ()


def test_a_folder_replaced_by_a_link_is_a_folder_again(night: NightRepository, back: Back, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "attributes").write_text("* filter=x\n")
    shutil.rmtree(Path(night.git_dir, "info"))
    Path(night.git_dir, "info").symlink_to(outside)
    assert back() == ("info",)
    assert (outside / "attributes").exists()
    assert back() == ()


@pytest.mark.parametrize("spoilt", ["[core]\n\tfsmonitor = sh\n", "[core]\n\tbare = true\n", "[broken\n"])
def test_a_loops_own_configuration_keeps_only_what_is_its_own(
    night: NightRepository, back: Back, tmp_path: Path, spoilt: str
) -> None:
    one = tmp_path / "one"
    git(one, "sparse-checkout", "set", "--cone", "src")
    assert back() == ()
    own = Path(night.git_dir, "worktrees", "one", "config.worktree")
    sparse = own.read_text()
    own.write_text(spoilt if spoilt.startswith("[broken") else sparse + spoilt)
    assert back() == ("worktrees/one/config.worktree",)
    assert back() == ()
    assert git(one, "config", "--worktree", "core.sparseCheckout") == "true"
    assert git(one, "sparse-checkout", "list") == "src"
    assert git(one, "status", "--porcelain") == ""
    assert not (one / "tests").exists()


def test_a_loops_own_configuration_that_is_no_file_moves_aside(
    night: NightRepository, back: Back, tmp_path: Path
) -> None:
    own = Path(night.git_dir, "worktrees", "one", "config.worktree")
    own.symlink_to(tmp_path / "elsewhere")
    assert back() == ("worktrees/one/config.worktree",)
    assert not own.is_symlink()
    own.mkdir()
    assert back() == ("worktrees/one/config.worktree",)
    assert git(tmp_path / "one", "status", "--porcelain") == ""


def test_what_an_agent_says_of_itself_in_its_own_configuration_is_looked_at_once(
    made: tuple[NightRepository, str], tmp_path: Path
) -> None:
    night, digest = made
    git(tmp_path / "one", "config", "--worktree", "user.name", "Agent")
    seen: dict[str, tuple[int, ...]] = {}
    assert night.put_back_guarded(digest, "", seen) == ()
    assert list(seen) == ["worktrees/one/config.worktree"]
    assert night.put_back_guarded(digest, "", seen) == ()
    assert git(tmp_path / "one", "config", "user.name") == "Agent"
