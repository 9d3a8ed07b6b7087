"""Whatever a loop plants in the night repository, the daemon's git runs none of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.payloads import plant
from support.repositories import ENV, commit, git, head, linked, night_of, repository

from ralphd.core.taking import Pick
from ralphd.edges import git as edge
from ralphd.edges.checkout import deliver, describe_repo
from ralphd.edges.git import Git
from ralphd.edges.night_repository import NightRepository
from ralphd.edges.taking import Workshop


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def night(repo: Path, tmp_path: Path) -> NightRepository:
    return night_of(repo, tmp_path / "night")


def test_nothing_planted_in_the_night_repository_ever_runs(night: NightRepository, tmp_path: Path, repo: Path) -> None:
    at, base = linked(night, tmp_path / "one"), head(repo)
    (at / "src" / "a.py").write_text("work")
    (at / ".gitattributes").write_text("* filter=x diff=x\n")
    done = commit(at, "x")
    ran = plant(Path(night.git_dir), tmp_path)
    subprocess.run(["git", "status"], cwd=at, env=ENV, capture_output=True, check=False)
    assert ran.exists(), "the payloads must be live, or this test shows nothing"
    ran.unlink()
    ask_everything(night, tmp_path, repo, base, done)
    assert not ran.exists(), ran.read_text()


def ask_everything(night: NightRepository, tmp_path: Path, repo: Path, base: str, done: str) -> None:
    """What the daemon asks git in a night."""
    night.add_worktree(str(tmp_path / "two"), "ralphd/n1/two", base)
    night.heads("ralphd/n1/")
    night.changed_paths(base, done)
    night.is_ancestor(base, done)
    night.commits_between(base, done)
    night.tree_of(done)
    night.subject_of(done)
    night.keep("n1", "kept", done)
    night.fingerprint()
    deliver(describe_repo(str(repo)), night.control, "n1")
    assert git(repo, "rev-parse", "refs/ralphd/n1/one") == done


def test_the_daemon_does_not_even_read_what_was_planted(night: NightRepository, tmp_path: Path) -> None:
    plant(Path(night.git_dir), tmp_path)
    seen = Git(git_dir=night.control).text("config", "--list")
    assert "alias.rev-parse" in Git(git_dir=night.git_dir).text("config", "--list")
    assert str(tmp_path / "payload") not in seen
    assert night._git.git_dir == night.control


# ------------------------------------------------------------------ in the git folder that the daemon reads by


def test_nothing_planted_in_the_daemons_own_git_folder_ever_runs_either(
    night: NightRepository, tmp_path: Path, repo: Path
) -> None:
    """Also before it is put back, which happens every few seconds only."""
    base = head(repo)
    at = linked(night, tmp_path / "one")
    (at / "src" / "a.py").write_text("work")
    done = commit(at, "x")
    ran = plant(Path(night.control), tmp_path)
    assert str(tmp_path / "payload") in Git(git_dir=night.control).text("config", "--list")
    ask_everything(night, tmp_path, repo, base, done)
    assert not ran.exists(), ran.read_text()


@pytest.mark.parametrize("old", [False, True])
def test_nobody_is_asked_for_a_missing_object(night: NightRepository, tmp_path: Path, *, old: bool) -> None:
    """``old``: by a git that doesn't know GIT_NO_LAZY_FETCH."""
    ran = plant(Path(night.control), tmp_path)
    remote = {"url": str(tmp_path / "repo"), "promisor": "true", "uploadpack": str(tmp_path / "payload")}
    for key, value in remote.items():
        git(night.control, "config", "-f", "config", f"remote.evil.{key}", value)
    git(night.control, "config", "-f", "config", "core.repositoryformatversion", "1")
    git(night.control, "config", "-f", "config", "extensions.partialClone", "evil")
    missing = f"{'a' * 40}^{{tree}}"
    subprocess.run(["git", "cat-file", "-e", missing], cwd=night.control, env=ENV, capture_output=True, check=False)
    assert ran.exists(), "the payload must be live, or this test shows nothing"
    ran.unlink()
    env = edge.environment({"GIT_DIR": night.control}, user_config=False)
    if old:
        del env["GIT_NO_LAZY_FETCH"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(edge, "environment", lambda *_, **__: env)
        assert Git(git_dir=night.control).run("cat-file", "-e", missing)[0] != 0
    assert not ran.exists(), ran.read_text()


def plant_a_merge_driver(night: NightRepository, tmp_path: Path) -> Path:
    """Unlike the plumbing of the night, a merge runs what is configured."""
    ran = plant(Path(night.control), tmp_path)
    git(night.control, "config", "-f", "config", "merge.x.driver", str(tmp_path / "payload"))
    Path(night.control, "info", "attributes").write_text("* merge=x\n")
    return ran


def test_a_merge_driver_planted_in_it_does_not_run_when_results_are_joined(
    night: NightRepository, tmp_path: Path, repo: Path
) -> None:
    made = []
    for loop in ("one", "two"):
        at = linked(night, tmp_path / loop, loop)
        (at / "src" / "a.py").write_text(f"by = '{loop}'\n")
        made.append(Pick(loop=loop, commit=commit(at, loop), score=1.0))
    ran = plant_a_merge_driver(night, tmp_path)
    workshop = Workshop(night)
    workshop.join(head(repo), made, "{loop}")
    assert ran.exists(), "the payload must be live, or this test shows nothing"
    ran.unlink()
    workshop.require()
    assert workshop.join(head(repo), made, "{loop}").conflicts == ("src/a.py",)
    assert not ran.exists(), ran.read_text()


SPOILS: dict[str, Callable[[Path, Path], object]] = {
    "config": lambda at, _: git(at, "config", "-f", "config", "core.fsmonitor", "sh"),
    "config of nothing": lambda at, _: (at / "config").write_text("[broken"),
    "no config": lambda at, _: (at / "config").unlink(),
    "config a link": lambda at, out: ((at / "config").unlink(), (at / "config").symlink_to(out / "config")),
    "config.worktree": lambda at, _: (at / "config.worktree").write_text("[core]\n\tfsmonitor = sh\n"),
    "commondir": lambda at, out: (at / "commondir").write_text(f"{out}\n"),
    "hooks": lambda at, out: shutil.copytree(out, at / "hooks"),
    "info/attributes": lambda at, _: (at / "info" / "attributes").write_text("* merge=x\n"),
    "info/grafts": lambda at, _: (at / "info" / "grafts").write_text("x\n"),
    "info a link": lambda at, out: (shutil.rmtree(at / "info"), (at / "info").symlink_to(out)),
    "HEAD": lambda at, _: (at / "HEAD").write_text("ref: ../../x\n"),
    "objects elsewhere": lambda at, out: ((at / "objects").unlink(), (at / "objects").symlink_to(out)),
    "refs a folder": lambda at, _: ((at / "refs").unlink(), (at / "refs").mkdir()),
    "packed-refs gone": lambda at, _: (at / "packed-refs").unlink(),
    "all of it gone": lambda at, _: shutil.rmtree(at),
    "all of it elsewhere": lambda at, out: (shutil.rmtree(at), at.symlink_to(out)),
}


@pytest.mark.parametrize("how", SPOILS)
def test_the_daemons_own_git_folder_is_put_back(night: NightRepository, tmp_path: Path, repo: Path, how: str) -> None:
    done = commit(linked(night, tmp_path / "one"), "x")
    outside, at = tmp_path / "outside", Path(night.control)
    outside.mkdir()
    (outside / "config").write_text("[core]\n\tfsmonitor = sh\n")
    before = {name: os.readlink(at / name) for name in os.listdir(at) if (at / name).is_symlink()}
    config = (at / "config").read_bytes()
    assert night.put_view_back() == ()
    SPOILS[how](at, outside)
    told = night.put_view_back()
    assert all(name.startswith("control.git/") for name in told)
    assert bool(told) or how == "packed-refs gone"  # git itself may remove what it has no use for
    assert night.put_view_back() == ()
    assert (at / "config").read_bytes() == config
    assert {name: os.readlink(at / name) for name in os.listdir(at) if (at / name).is_symlink()} == before
    assert sorted(os.listdir(outside)) == ["config"]
    assert night.heads("ralphd/n1/")["ralphd/n1/one"].commit == done
    night.add_worktree(str(tmp_path / "two"), "ralphd/n1/two", head(repo))


def test_what_was_planted_there_is_named_with_the_rest(night: NightRepository, tmp_path: Path) -> None:
    plant_a_merge_driver(night, tmp_path)
    told = night.put_back_guarded("", "", {})
    assert {"control.git/config", "control.git/hooks", "control.git/info/attributes"} <= set(told)
    assert any("fsmonitor" in path.read_text() for path in Path(night.aside).glob("control.git-config-*"))
