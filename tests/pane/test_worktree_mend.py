"""Whatever happened to a worktree, it works again afterwards, and no commit or unsaved line is lost."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.repositories import commit, git, head, linked, night_of, repository

from ralphd.core.errors import GitError
from ralphd.core.outcomes import Kind
from ralphd.core.records import Prepared, Repaired
from ralphd.core.worktree_facts import SHARED_LOCK_STALE_AFTER_S
from ralphd.edges.night_repository import NightRepository
from ralphd.pane.ground import Ground
from ralphd.pane.mend import Mended, mend, reset_clean
from ralphd.pane.restore import restore
from ralphd.pane.worktree import Place, look, prepare

BRANCH = "ralphd/n1/one"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def place(repo: Path, tmp_path: Path) -> Place:
    night = night_of(repo, tmp_path / "night")
    night.add_worktree(str(tmp_path / "one"), BRANCH, head(repo))
    return Place(worktree=str(tmp_path / "one"), git_dir=night.git_dir, branch=BRANCH, source=str(repo))


@pytest.fixture
def tree(place: Place) -> Path:
    prepare(place)
    return Path(place.worktree)


@pytest.fixture
def tip(tree: Path) -> str:
    (tree / "work").write_text("work")
    return commit(tree, "work")


def mended(place: Place, tip: str) -> tuple[Mended, ...]:
    """Mend, and hold what must be true after it: at home, sound, and nothing left to do."""
    done = mend(place, known_tip=tip, stamp="s1", now_s=time.time())
    facts = look(place, time.time())
    assert facts.at_home
    assert facts.linked
    assert facts.head == facts.tip != ""
    assert mend(place, known_tip=facts.tip, stamp="s2", now_s=time.time()) == ()
    assert git(place.git_dir, "fsck", "--connectivity-only", check=True) is not None
    git(place.worktree, "status")
    return done


def kinds(done: tuple[Mended, ...]) -> list[Kind]:
    return [step.kind for step in done]


def test_nothing_wrong_nothing_done(place: Place, tip: str, tree: Path) -> None:
    (tree / "unsaved").write_text("unsaved")
    assert mended(place, tip) == ()
    assert (tree / "unsaved").exists()


@pytest.mark.parametrize("content", [b"", b"DIRC"])
def test_a_dead_lock_moves_aside(place: Place, tip: str, tree: Path, content: bytes) -> None:
    locks = [Path(place.admin, "index.lock"), Path(place.admin, "HEAD.lock"), Path(place.git_dir, f"{place.ref}.lock")]
    for lock in locks:
        lock.write_bytes(content)
        os.utime(lock, (time.time() - 10,) * 2)
    assert kinds(mended(place, tip)) == [Kind.STALE_LOCK] * 3
    assert not any(lock.exists() for lock in locks)
    assert Path(place.admin, "aside-index.lock-s1").read_bytes() == content
    commit(tree, "works again")


def test_nothing_is_touched_while_the_loop_lives(place: Place, tip: str) -> None:
    lock = Path(place.admin, "index.lock")
    lock.write_text("")
    assert mend(place, known_tip=tip, stamp="s1", now_s=time.time(), loop_alive=True) == ()
    assert lock.exists()


def test_a_lock_of_the_index_is_dead_at_any_age(place: Place, tip: str) -> None:
    Path(place.admin, "index.lock").write_text("")
    assert kinds(mended(place, tip)) == [Kind.STALE_LOCK]


def test_what_another_worktrees_git_holds_for_a_moment_is_left_to_it(place: Place, tip: str) -> None:
    """`git gc` anywhere expires the reflogs of all worktrees, and packs all branches: it locks each for that."""
    locks = [Path(place.admin, "HEAD.lock"), Path(place.git_dir, f"{place.ref}.lock")]
    for lock in locks:
        lock.write_text("")
    let_go = threading.Timer(0.5, lambda: [lock.unlink() for lock in locks])
    let_go.start()
    told: list[Prepared | Repaired] = []
    assert Ground(place=place, reset_to="", generation=1, known_tip=tip, prepared=1).ready(told.append) == tip
    let_go.join()
    assert told == []


@pytest.mark.slow
def test_a_dead_lock_is_waited_for_and_moves_aside(place: Place, tip: str) -> None:
    lock = Path(place.admin, "HEAD.lock")
    lock.write_text("")
    told: list[Prepared | Repaired] = []
    assert Ground(place=place, reset_to="", generation=1, known_tip=tip, prepared=1).ready(told.append) == tip
    assert [repaired.outcome.kind for repaired in told if isinstance(repaired, Repaired)] == [Kind.STALE_LOCK]
    assert not lock.exists()


def test_a_young_shared_lock_is_somebody_elses(place: Place, tip: str) -> None:
    lock = Path(place.git_dir, "packed-refs.lock")
    lock.write_text("")
    assert mend(place, known_tip=tip, stamp="s1", now_s=time.time()) == ()
    os.utime(lock, (time.time() - 3600,) * 2)
    assert kinds(mended(place, tip)) == [Kind.STALE_LOCK]
    assert not lock.exists()


LOCK_PLACES = ("{admin}/index.lock", "{admin}/HEAD.lock", "{admin}/config.worktree.lock", "{git_dir}/{ref}.lock",
               "{git_dir}/config.lock", "{git_dir}/packed-refs.lock")  # fmt: skip


def test_of_fifty_locks_that_live_none_is_taken_away(place: Place, tip: str) -> None:
    """Locks of a loop's own while the loop lives, and shared ones at any age up to the limit; then the same ones dead."""
    paths = [Path(where.format(admin=place.admin, git_dir=place.git_dir, ref=place.ref)) for where in LOCK_PLACES]
    ages_s = (0.0, 1.0, 30.0, 120.0, 600.0, SHARED_LOCK_STALE_AFTER_S - 60)
    live = [(path, age_s, path not in paths[4:]) for age_s in ages_s for path in paths]
    live += [(path, age_s, True) for path in paths for age_s in (3600.0, 86400.0, 10 * 86400.0)]
    assert len(live) >= 50
    for path, age_s, loop_alive in live:
        with path.open("xb") as held:
            os.utime(held.fileno(), (time.time() - age_s,) * 2)
            assert mend(place, known_tip=tip, stamp="s", now_s=time.time(), loop_alive=loop_alive) == ()
            assert path.stat().st_ino == os.fstat(held.fileno()).st_ino, f"{path} was taken away"
        path.unlink()
    for path in paths:
        path.touch()
        os.utime(path, (time.time() - SHARED_LOCK_STALE_AFTER_S - 60,) * 2)
    assert kinds(mended(place, tip)) == [Kind.STALE_LOCK] * len(paths)
    assert not any(path.exists() for path in paths)


def test_a_deleted_worktree_comes_back_from_the_tip(place: Place, tip: str, tree: Path) -> None:
    (tree / "staged").write_text("staged")
    git(tree, "add", "staged")
    shutil.rmtree(tree)
    (done,) = mended(place, tip)
    assert done.kind is Kind.WORKTREE_GONE
    assert (tree / "work").read_text() == "work"
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "show", f"{done.rescue}:staged") == "staged"
    assert head(tree) == tip


def test_a_worktree_deleted_with_its_registration(place: Place, tip: str, tree: Path) -> None:
    shutil.rmtree(tree)
    git(place.git_dir, "worktree", "prune")
    assert kinds(mended(place, tip)) == [Kind.WORKTREE_GONE]
    assert (tree / "work").exists()


def test_a_worktree_deleted_with_its_branch(place: Place, tip: str, tree: Path) -> None:
    shutil.rmtree(tree)
    git(place.git_dir, "worktree", "prune")
    git(place.git_dir, "branch", "-D", BRANCH)
    assert kinds(mended(place, tip)) == [Kind.WORKTREE_GONE]
    assert head(tree) == tip


@pytest.mark.parametrize("how", ["link", "admin", "both", "init", "index", "symlink"])
def test_an_untied_worktree_keeps_its_files(place: Place, tip: str, tree: Path, tmp_path: Path, how: str) -> None:
    (tree / "work").write_text("unsaved")
    (tree / "new").write_text("new")
    if how in ("link", "both", "init", "symlink"):
        (tree / ".git").unlink()
    if how in ("admin", "both", "init"):
        shutil.rmtree(place.admin)
    if how == "init":
        git(tree, "init", "-q")
    if how == "index":
        (tree / ".git").write_text("gitdir: /nowhere\n")
        Path(place.admin, "index").unlink()
    if how == "symlink":
        (tree / ".git").symlink_to(tmp_path / "repo" / ".git")
    assert kinds(mended(place, tip)) == [Kind.WORKTREE_GONE]
    assert (tree / "work").read_text() == "unsaved"
    assert (tree / "new").read_text() == "new"
    assert git(tree, "status", "--porcelain").split() == ["M", "work", "??", "new"]


def test_a_first_checkout_that_was_cut_off_is_finished(place: Place, tree: Path, repo: Path) -> None:
    Path(place.ready).unlink()
    Path(place.admin, "index").rename(Path(place.admin, "index.lock"))
    shutil.rmtree(tree / "tests")
    (tree / "src" / "a.py").write_text("a =")
    assert kinds(mended(place, "")) == [Kind.STALE_LOCK, Kind.WORKTREE_GONE]
    assert git(tree, "status", "--porcelain") == ""
    assert (tree / "tests" / "test_a.py").exists()


def test_never_in_the_repository_above(place: Place, tip: str, tree: Path, tmp_path: Path) -> None:
    """With its .git gone, a worktree inside somebody's repository must not lead git to that one."""
    git(tmp_path, "init", "-q")
    (tmp_path / "precious").write_text("precious")
    shutil.rmtree(tree)
    mended(place, tip)
    reset_clean(place, tip, "s3", time.time())
    assert (tmp_path / "precious").exists()
    assert git(tmp_path, "rev-parse", "--verify", "--quiet", "HEAD", check=False) == ""


def test_detached_with_more_commits_the_branch_moves_up(place: Place, tip: str, tree: Path) -> None:
    git(tree, "checkout", "-q", "--detach")
    done = commit(tree, "detached work")
    (tree / "work").write_text("unsaved")
    assert kinds(mended(place, tip)) == [Kind.WORKTREE_DETACHED]
    assert head(tree) == done
    assert (tree / "work").read_text() == "unsaved"


def test_on_another_branch_that_goes_on(place: Place, tip: str, tree: Path) -> None:
    git(tree, "checkout", "-q", "-b", "fix")
    done = commit(tree, "fix")
    assert kinds(mended(place, tip)) == [Kind.WORKTREE_DETACHED]
    assert head(tree) == git(tree, "rev-parse", "fix") == done


def test_detached_elsewhere_is_saved_and_put_back(place: Place, tip: str, tree: Path) -> None:
    git(tree, "checkout", "-q", "--detach", "HEAD~2")
    lost = commit(tree, "elsewhere")
    (tree / "unsaved").write_text("unsaved")
    (tree / "src" / "a.py").write_text("conflicting")
    (done,) = mended(place, tip)
    assert done.kind is Kind.WORKTREE_DETACHED
    assert git(tree, "rev-parse", f"{done.rescue}^") == lost
    assert git(tree, "show", f"{done.rescue}:unsaved") == "unsaved"
    assert git(tree, "show", f"{done.rescue}:src/a.py") == "conflicting"
    assert head(tree) == tip
    assert (tree / "src" / "a.py").read_text() == "a = 2\n"


def test_unsaved_changes_that_are_in_nobodys_way_stay(place: Place, tip: str, tree: Path) -> None:
    git(tree, "checkout", "-q", "--detach", "HEAD~1")
    (tree / "src" / "a.py").write_text("unsaved")
    (done,) = mended(place, tip)
    assert head(tree) == tip
    assert git(tree, "status", "--porcelain") == "M src/a.py".rjust(11)
    assert git(tree, "show", f"{done.rescue}:src/a.py") == "unsaved"


def test_a_deleted_branch_comes_back(place: Place, tip: str, tree: Path) -> None:
    (tree / "unsaved").write_text("unsaved")
    git(tree, "update-ref", "-d", f"refs/heads/{BRANCH}")
    assert kinds(mended(place, tip)) == [Kind.BRANCH_MOVED]
    assert head(tree) == tip
    assert (tree / "unsaved").exists()


def test_a_renamed_branch(place: Place, tip: str, tree: Path) -> None:
    git(tree, "branch", "-m", "mine")
    done = commit(tree, "on mine")
    assert kinds(mended(place, tip)) == [Kind.BRANCH_MOVED, Kind.WORKTREE_DETACHED]
    assert head(tree) == done


@pytest.mark.parametrize(
    "spoil", [("branch", "-m", "other"), ("update-ref", "-d", "HEAD"), ("reset", "--hard", "HEAD~1")]
)
def test_a_clean_start_saves_where_the_branch_was_though_its_loop_took_it_away(
    place: Place, tip: str, tree: Path, spoil: tuple[str, ...]
) -> None:
    base = git(tree, "rev-parse", "HEAD~1")
    git(tree, *spoil)
    git(tree, "checkout", "-q", "--detach", base)  # so that nothing else holds what was there
    git(tree, "update-ref", "-d", "refs/heads/other")
    reset_clean(place, base, "s1", time.time(), known_tip=tip)
    assert tip in git(tree, "for-each-ref", "--format=%(objectname)", "refs/ralphd/rescue").split()
    assert git(tree, "rev-parse", BRANCH) == base
    reset_clean(place, base, "s2", time.time(), known_tip="1" * 40)  # nobody has that commit: it hinders nothing


def test_a_branch_moved_back_is_put_back(place: Place, tip: str, tree: Path) -> None:
    git(tree, "reset", "-q", "--hard", "HEAD~2")
    (tree / "src" / "a.py").write_text("unsaved")
    (tree / "new").write_text("new")
    (done,) = mended(place, tip)
    assert done.kind is Kind.BRANCH_MOVED
    assert head(tree) == tip
    assert git(tree, "show", f"{done.rescue}:src/a.py") == "unsaved"
    assert git(tree, "show", f"{done.rescue}:new") == "new"
    assert (tree / "work").exists()


def test_a_rewritten_branch_goes_on_and_its_former_tip_is_kept(place: Place, tip: str, tree: Path) -> None:
    (tree / "work").write_text("better")
    git(tree, "commit", "-q", "-a", "--amend", "-m", "better")
    amended = head(tree)
    (tree / "unsaved").write_text("unsaved")
    (done,) = mended(place, tip)
    assert done.kind is Kind.HISTORY_REWRITTEN
    assert git(tree, "rev-parse", done.rescue) == tip
    assert head(tree) == amended
    assert (tree / "unsaved").exists()


@pytest.mark.parametrize("operation", ["merge", "rebase", "cherry-pick", "revert", "bisect"])
def test_an_open_operation_is_saved_and_aborted(place: Place, tip: str, tree: Path, operation: str) -> None:
    git(tree, "checkout", "-q", "-b", "side", "HEAD~1")
    (tree / "work").write_text("other")
    commit(tree, "side")
    git(tree, "checkout", "-q", BRANCH)
    (tree / "work").write_text("again")
    now = commit(tree, "again")
    arguments = {
        "merge": ["merge", "side"],
        "rebase": ["rebase", "side"],
        "cherry-pick": ["cherry-pick", "side"],
        "revert": ["revert", "HEAD~1"],
        "bisect": ["bisect", "start", "HEAD", "HEAD~2"],
    }
    git(tree, *arguments[operation], check=False)
    (tree / "unsaved").write_text("unsaved")
    done = mended(place, now)
    assert done[0].kind is Kind.MID_OPERATION
    assert git(tree, "show", f"{done[0].rescue}:unsaved") == "unsaved"
    assert head(tree) == now
    assert (tree / "work").read_text() == "again"


def test_everything_at_once(place: Place, tip: str, tree: Path) -> None:
    git(tree, "checkout", "-q", "--detach", "HEAD~1")
    git(tree, "update-ref", "-d", f"refs/heads/{BRANCH}")
    Path(place.admin, "index.lock").write_text("")
    (tree / ".git").unlink()
    (tree / "unsaved").write_text("unsaved")
    done = mended(place, tip)
    assert head(tree) == tip
    saved = [git(tree, "show", f"{step.rescue}:unsaved", check=False) for step in done if step.rescue]
    assert "unsaved" in saved or (tree / "unsaved").read_text() == "unsaved"


def test_a_damaged_head_and_a_damaged_index(place: Place, tip: str, tree: Path) -> None:
    Path(place.admin, "HEAD").write_bytes(b"\0rubbish")
    assert kinds(mended(place, tip)) == [Kind.WORKTREE_GONE]
    Path(place.admin, "index").write_bytes(b"rubbish")
    (tree / "unsaved").write_text("unsaved")
    assert kinds(mended(place, tip)) == [Kind.WORKTREE_GONE]
    assert (tree / "unsaved").exists()
    Path(place.admin, "index").write_bytes(b"DIRC rubbish")
    (tree / "unsaved").write_text("unsaved")
    saved = reset_clean(place, tip, "s3", time.time())
    assert git(tree, "show", f"{saved.ref}:unsaved") == "unsaved"


def test_a_tip_that_nobody_has_is_an_error_and_changes_nothing(place: Place, tip: str, tree: Path) -> None:
    git(tree, "update-ref", "-d", f"refs/heads/{BRANCH}")
    with pytest.raises(GitError):
        mend(place, known_tip="1" * 40, stamp="s1", now_s=time.time())
    assert (tree / "work").exists()


def test_reset_saves_commits_and_every_unsaved_line(place: Place, tip: str, tree: Path, repo: Path) -> None:
    (tree / "work").write_text("staged")
    git(tree, "add", "work")
    (tree / "work").write_text("unsaved")
    (tree / "deep").mkdir()
    (tree / "deep" / "new\nname").write_text("new")
    (tree / ".env").write_text("ignored")
    saved = reset_clean(place, head(repo), "s1", time.time())
    assert saved.ref == "refs/ralphd/rescue/n1/one/s1"
    assert saved.complete
    assert git(tree, "show", f"{saved.ref}:work") == "unsaved"
    assert git(tree, "show", f"{saved.ref}^:work") == "staged"
    assert git(tree, "rev-parse", f"{saved.ref}~2") == tip
    assert git(tree, "show", f"{saved.ref}:deep/new\nname") == "new"
    assert head(tree) == head(repo)
    assert git(tree, "status", "--porcelain") == ""
    assert (tree / ".env").exists()
    assert not (tree / "deep").exists()


def test_reset_with_nothing_to_save_makes_no_ref(place: Place, tip: str) -> None:
    assert reset_clean(place, tip, "s1", time.time()).ref == ""


def test_a_rescue_ref_is_never_moved(place: Place, tip: str, tree: Path) -> None:
    refs = []
    for content in ("first", "second"):
        (tree / "work").write_text(content)
        refs.append(reset_clean(place, tip, "s1", time.time()).ref)
    assert [git(tree, "show", f"{ref}:work") for ref in refs] == ["first", "second"]


def test_reset_out_of_an_open_rebase(place: Place, tip: str, tree: Path, repo: Path) -> None:
    git(tree, "checkout", "-q", "-b", "side", "HEAD~1")
    (tree / "work").write_text("other")
    commit(tree, "side")
    git(tree, "rebase", BRANCH, check=False)
    reset_clean(place, head(repo), "s1", time.time())
    assert git(tree, "status", "--porcelain=v1", "--branch") == f"## {BRANCH}"
    assert look(place, time.time()).mid_operation == ""
    assert git(tree, "merge-base", "--is-ancestor", tip, "refs/ralphd/rescue/n1/one/s1", check=False) == ""


def test_where_a_file_cannot_be_saved_the_whole_worktree_moves_aside(place: Place, tip: str, tree: Path) -> None:
    """A nested repository without a commit is something git can't add."""
    git(tree, "init", "-q", "nested")
    (tree / "nested" / "precious").write_text("precious")
    (tree / "work").write_text("unsaved")
    saved = reset_clean(place, tip, "s1", time.time())
    assert not saved.complete
    assert Path(saved.moved_aside, "nested", "precious").read_text() == "precious"
    assert Path(saved.moved_aside, "work").read_text() == "unsaved"
    assert mended(place, tip) == ()
    assert git(tree, "status", "--porcelain") == ""
    assert (tree / "work").read_text() == "work"


@pytest.mark.parametrize("trouble", ["detached", "moved back", "merge"])
def test_no_repair_takes_away_what_git_cannot_save(place: Place, tip: str, tree: Path, trouble: str) -> None:
    git(tree, "init", "-q", "nested")
    (tree / "nested" / "precious").write_text("precious")
    if trouble == "detached":
        git(tree, "checkout", "-q", "--detach", "HEAD~2")
    if trouble == "moved back":
        git(tree, "reset", "-q", "--hard", "HEAD~2")
    if trouble == "merge":
        Path(place.admin, "MERGE_HEAD").write_text(tip + "\n")
    (tree / "src" / "a.py").write_text("unsaved")
    (done,) = mended(place, tip)
    assert "the old worktree is kept as" in done.text
    (aside,) = tree.parent.glob("one.aside-*")
    assert (aside / "nested" / "precious").exists()
    assert (aside / "src" / "a.py").read_text() == "unsaved"
    assert head(tree) == tip
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["forward", "back", "away", "push"])
def test_a_branch_moved_from_elsewhere_goes_back_and_no_file_is_touched(
    place: Place, tip: str, tree: Path, tmp_path: Path, how: str
) -> None:
    (tree / "work").write_text("unsaved")
    night, other = NightRepository(str(Path(place.git_dir).parent)), tmp_path / "two"
    linked(night, other, "two", tip)
    (other / "theirs").write_text("theirs")
    theirs = {"back": f"{tip}~1", "away": git(other, "commit-tree", "-m", "x", f"{tip}^{{tree}}")}.get(how) or commit(
        other, "theirs"
    )
    moved = git(other, "rev-parse", theirs)
    if how == "push":
        refused = git(other, "push", "-q", "-f", ".", f"{moved}:refs/heads/{BRANCH}", check=False)
        assert (refused, git(tree, "rev-parse", BRANCH)) == ("", tip)  # git itself guards what is checked out
        git(other, "config", "receive.denyCurrentBranch", "ignore")
        git(other, "push", "-q", "-f", ".", f"{moved}:refs/heads/{BRANCH}")
    else:
        git(other, "update-ref", f"refs/heads/{BRANCH}", moved)
    (step,) = mended(place, tip)
    assert step.kind is Kind.FOREIGN_CHANGE
    assert git(tree, "rev-parse", BRANCH) == tip
    assert git(tree, "status", "--porcelain=v1") == " M work"
    assert (step.rescue == "") == (how == "back")  # an older commit of the same branch needs no saving
    if step.rescue:
        assert git(place.git_dir, "rev-parse", step.rescue) == moved


@pytest.mark.parametrize("logs", ["true", "false"])
def test_a_loops_own_moves_are_its_own_whatever_logs_are_set_to(place: Place, tip: str, tree: Path, logs: str) -> None:
    git(Path(place.git_dir), "config", "core.logAllRefUpdates", logs)
    (tree / "more").write_text("more")
    done = commit(tree, "more")
    assert mended(place, tip) == ()
    git(tree, "update-ref", f"refs/heads/{BRANCH}", tip)
    git(tree, "update-ref", f"refs/heads/{BRANCH}", done)
    assert mended(place, tip) == ()


@pytest.mark.parametrize("where", ["config", "included", "worktree"])
def test_no_repair_goes_through_a_filter_that_a_loop_configured(
    place: Place, tip: str, tree: Path, tmp_path: Path, where: str
) -> None:
    file = {"config": Path(place.git_dir, "config"), "worktree": Path(place.admin, "config.worktree")}.get(where)
    at = file or tmp_path / "included"
    for key in ("clean", "smudge", "process"):
        git(tree, "config", "-f", str(at), f"filter.a=b.{key}", f"touch {tmp_path}/ran; true")
    git(tree, "config", "-f", str(at), "filter.a=b.required", "true")
    if where == "included":
        git(tree, "config", "-f", str(Path(place.git_dir, "config")), "include.path", str(at))
    (Path(place.git_dir) / "info").mkdir(exist_ok=True)
    (Path(place.git_dir) / "info" / "attributes").write_text("* filter=a=b\n")
    (tree / "work").write_text("unsaved")
    saved = reset_clean(place, git(tree, "rev-parse", f"{tip}~1"), "s1", time.time())
    assert git(place.git_dir, "cat-file", "-p", f"{saved.ref}:work") == "unsaved"
    assert (tree / "src" / "a.py").read_text() == "a = 2\n"
    assert not (tmp_path / "ran").exists()


def test_a_persons_own_filter_holds_in_a_repair(
    place: Place, tip: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("clean", "tr a-z A-Z"), ("smudge", "cat")):
        git(tree, "config", "-f", str(tmp_path / "persons"), f"filter.up.{name}", value)
        git(tree, "config", "-f", str(Path(place.git_dir, "config")), f"filter.up.{name}", "false")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text((tmp_path / "persons").read_text())
    (tree / ".gitattributes").write_text("work filter=up\n")
    (tree / "work").write_text("unsaved")
    saved = reset_clean(place, git(tree, "rev-parse", f"{tip}~1"), "s1", time.time())
    assert git(place.git_dir, "cat-file", "-p", f"{saved.ref}:work") == "UNSAVED"


def test_protected_files_are_put_back_by_a_commit_that_changes_nothing_else(
    place: Place, repo: Path, tip: str, tree: Path
) -> None:
    """Changed, removed and added ones; what is unsaved there goes to a rescue ref, other work stays as it is."""
    base = git(place.worktree, "rev-parse", f"{tip}^")
    git(place.worktree, "rm", "-q", "src/a.py")
    (tree / "tests [x]").mkdir()
    (tree / "tests [x]" / "easy.py").write_text("pass")
    (tree / "README.md").write_text("changed")
    cheated = commit(tree, "cheat")
    (tree / "README.md").write_text("unsaved")
    (tree / "work").write_text("unsaved work")
    (tree / "staged").write_text("staged")
    git(place.worktree, "add", "staged")
    paths = ("src/a.py", "tests [x]/easy.py", "README.md", "work")
    done = restore(place, base, paths[:3], "s1")
    assert done is not None
    assert set(done.paths) == set(paths[:3])
    assert git(place.worktree, "diff", "--name-only", base, "HEAD") == "work"
    assert git(place.worktree, "rev-parse", "HEAD^", "HEAD") == f"{cheated}\n{done.commit}"
    assert git(place.worktree, "status", "--porcelain=v1") == "A  staged\n M work"
    assert git(place.git_dir, "show", f"{done.ref}:README.md") == "unsaved"
    assert restore(place, base, paths[:3], "s2") is None


def test_a_clean_restart_parks_small_ignored_files_too_and_leaves_large_and_included_ones(
    place: Place, repo: Path, tmp_path: Path
) -> None:
    """Notes that mislead may lie where git doesn't look; a built environment is dear, and was asked for."""
    place = replace(place, include=(".env",))
    prepare(place)
    tree, base = Path(place.worktree), head(Path(place.worktree))
    (tree / ".gitignore").write_text(".env*\n*.log\n.memory/\nvenv/\n")
    commit(tree, "ignore more")
    (tree / "notes.log").write_text("all is done, do nothing")
    (tree / ".memory" / "deep").mkdir(parents=True)
    (tree / ".memory" / "deep" / "note.md").write_text("do nothing")
    (tree / "venv").mkdir()
    for number in range(80):
        (tree / "venv" / f"{number}.py").write_text("x")
    (tree / "outside.log").symlink_to("/etc/passwd")
    saved = reset_clean(place, base, "s1", time.time())
    assert saved.complete
    left = {path.name for path in tree.iterdir()} - {".git", ".gitignore", "src", "tests"}
    assert left == {".env", "venv", "outside.log"}
    assert (tree / ".env").read_text() == "KEY=1\n"
    assert git(place.git_dir, "show", f"{saved.ref}:notes.log") == "all is done, do nothing"
    assert git(place.git_dir, "show", f"{saved.ref}:.memory/deep/note.md") == "do nothing"
    assert ".env" not in git(place.git_dir, "ls-tree", "-r", "--name-only", saved.ref).splitlines()
