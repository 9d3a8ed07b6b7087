"""Bringing a night's work into the person's repository: verified once more, nothing of either side lost, and undone at will."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest
from support.mornings import NIGHT, Morning
from support.repositories import commit, everything, git


@pytest.fixture
def morning(tmp_path):
    return Morning(tmp_path)


def said(done):
    return done.stdout + done.stderr


def test_the_best_becomes_a_branch_and_the_checkout_stays_as_it_is(morning):
    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    best = morning.loop("loop-2", {"parts/b": "1", "parts/c": "1"}, score=3.0)
    morning.over()
    (morning.repo / "shared.txt").write_text("mine, uncommitted\n")
    before = everything(morning.repo, without=(".git",))
    done = morning.ralphd("take", "best")
    assert done.returncode == 0, said(done)
    assert "verified at 3, from 1" in done.stdout
    assert morning.at(f"take-{NIGHT}-loop-2") == best
    assert morning.head == morning.base
    assert everything(morning.repo, without=(".git",)) == before
    assert f"loop-2 as the branch take-{NIGHT}-loop-2 ({best[:12]}, 3)." in " ".join(
        morning.ralphd("report").stdout.split()
    )
    (told,) = json.loads(morning.ralphd("report", "--json").stdout)["taken"]
    assert (told["how"], told["loops"], told["undone_at"]) == ("branch", ["loop-2"], None)
    undone = morning.ralphd("take", "--undo")
    assert undone.returncode == 0, said(undone)
    assert git(morning.repo, "branch", "--list", "take-*") == ""
    assert git(morning.repo, "cat-file", "-t", best) == "commit"
    assert json.loads(morning.ralphd("report", "--json").stdout)["taken"][0]["undone_at"]
    assert morning.ralphd("take", "--undo").returncode == 3


def test_a_dry_run_shows_what_would_come_and_changes_nothing(morning):
    best = morning.loop("loop-1", {"parts/a": "1\n", "shared.txt": "a\nB\nc\n"}, score=2.0)
    morning.over()
    before = everything(morning.repo)
    done = morning.ralphd("take", "loop-1", "--dry-run")
    assert done.stdout == f"loop-1 {best[:12]}: verified at 2 in the night; 2 files, +2 -1\n"
    assert everything(morning.repo) == before


def test_what_the_verifier_no_longer_bears_out_is_not_taken(morning):
    morning.loop("loop-1", {"shared.txt": "no gain\n"}, score=7.0)  # the night's verdict was luck
    morning.over()
    before = git(morning.repo, "for-each-ref")
    done = morning.ralphd("take", "best")
    assert done.returncode == 1
    assert "doesn't gain: 1 after 1" in done.stdout
    assert "nothing in your repository has changed" in done.stderr
    assert git(morning.repo, "for-each-ref") == before


def test_work_that_changes_protected_paths_is_not_taken(morning):
    morning.loop("loop-1", {"score.sh": "echo score 99\n", "parts/a": "1"}, score=9.0)
    morning.over()
    done = morning.ralphd("take", "loop-1")
    assert done.returncode == 1
    assert "verify.tampered" in done.stdout


def test_a_merge_moves_the_branch_forward_over_a_moved_base_and_is_undone(morning):
    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    morning.over()
    (morning.repo / "parts" / "mine").write_text("1")
    mine = commit(morning.repo, "mine meanwhile")
    done = morning.ralphd("take", "best", "--merge")
    assert done.returncode == 0, said(done)
    assert "verified at 3, from 2" in done.stdout  # on top of what is checked out by now
    assert morning.at("HEAD^1") == mine
    assert sorted(path.name for path in (morning.repo / "parts").iterdir()) == ["a", "first", "mine"]
    assert git(morning.repo, "status", "--porcelain") == ""
    assert git(morning.repo, "symbolic-ref", "--short", "HEAD") == "main"
    assert morning.ralphd("take", "--undo").returncode == 0
    assert morning.head == mine
    assert git(morning.repo, "status", "--porcelain") == ""


def test_what_a_person_did_since_is_never_undone(morning):
    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    morning.over()
    assert morning.ralphd("take", "best", "--merge").returncode == 0
    (morning.repo / "shared.txt").write_text("edited\n")
    assert morning.ralphd("take", "--undo").returncode == 0  # an edit elsewhere stays
    assert (morning.repo / "shared.txt").read_text() == "edited\n"
    git(morning.repo, "checkout", "-q", "shared.txt")
    assert morning.ralphd("take", "best", "--merge").returncode == 0
    (morning.repo / "parts" / "a").write_text("edited\n")
    refused = morning.ralphd("take", "--undo")
    assert refused.returncode == 2, said(refused)
    assert (morning.repo / "parts" / "a").read_text() == "edited\n"
    later = commit(morning.repo, "later")
    refused = morning.ralphd("take", "--undo")
    assert refused.returncode == 2
    assert "has gone on since" in refused.stderr
    assert morning.head == later


def test_a_dirty_checkout_is_left_alone_with_the_way_out(morning):
    morning.loop("loop-1", {"parts/a": "1", "shared.txt": "theirs\n"}, score=2.0)
    morning.over()
    (morning.repo / "shared.txt").write_text("mine\n")
    before = everything(morning.repo, without=(".git/index",))
    done = morning.ralphd("take", "best", "--merge")
    assert done.returncode == 2
    assert "uncommitted changes in shared.txt: commit or stash them" in done.stderr
    assert everything(morning.repo, without=(".git/index",)) == before


def test_an_untracked_file_in_the_way_is_never_overwritten(morning):
    morning.loop("loop-1", {"parts/a": "theirs"}, score=2.0)
    morning.over()
    (morning.repo / "parts" / "a").write_text("mine, not committed")
    done = morning.ralphd("take", "best", "--merge")
    assert done.returncode == 2
    assert "parts/a" in done.stderr
    assert (morning.repo / "parts" / "a").read_text() == "mine, not committed"
    assert morning.head == morning.base


def test_a_conflict_is_named_and_nothing_changes(morning):
    morning.loop("loop-1", {"parts/a": "1", "shared.txt": "a\ntheirs\nc\n"}, score=2.0)
    morning.over()
    (morning.repo / "shared.txt").write_text("a\nmine\nc\n")
    mine = commit(morning.repo, "mine")
    done = morning.ralphd("take", "best", "--merge")
    assert done.returncode == 1
    assert "conflicts with what was taken before it in shared.txt" in done.stdout
    assert morning.head == mine
    assert git(morning.repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("state", ["detached", "rebasing"])
def test_a_checkout_that_cannot_go_forward_says_why(morning, state):
    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    morning.over()
    if state == "detached":
        git(morning.repo, "checkout", "-q", "--detach")
    else:
        (morning.repo / ".git" / "rebase-merge").mkdir()
    done = morning.ralphd("take", "best", "--merge")
    assert done.returncode == 2
    assert ("no branch is checked out" if state == "detached" else "a rebase is open") in done.stderr


def test_a_patch_holds_binary_files_and_leaves_the_repository_alone(morning):
    morning.loop("loop-1", {"parts/a": bytes(range(256)), "shared.txt": None}, score=2.0)
    morning.over()
    refs = git(morning.repo, "for-each-ref")
    path = morning.folder / "night.patch"
    done = morning.ralphd("take", "best", "--patch", str(path))
    assert done.returncode == 0, said(done)
    assert git(morning.repo, "for-each-ref") == refs
    again = morning.ralphd("take", "best", "--patch", str(path))
    assert again.returncode == 2
    assert "exists already" in again.stderr
    shown = morning.ralphd("take", "best", "--patch", "-")
    assert shown.stdout == path.read_text()
    git(morning.repo, "apply", str(path))
    assert (morning.repo / "parts" / "a").read_bytes() == bytes(range(256))
    assert not (morning.repo / "shared.txt").exists()
    assert "git apply -R" in morning.ralphd("take", "--undo").stderr


def test_of_thirty_loops_the_ones_that_conflict_or_spoil_are_left_out(morning):
    """Ten edit one line differently, one breaks the verifier only together with another, the rest fit together."""
    names = [f"loop-{number}" for number in range(1, 31)]
    for number, name in enumerate(names):
        files = {f"parts/{name}": "1"}
        if number < 10:
            files["shared.txt"] = f"a\n{name}\nc\n"
        if number == 15:
            files["parts/fire"] = "1"
        if number == 20:
            files["parts/powder"] = "1"
        morning.loop(name, files, score=float(len(files) - (number < 10) + 1))
    morning.over()
    done = morning.ralphd("take", "all", "--merge", "--batch", "8", "--json")
    assert done.returncode == 0, said(done)
    told = json.loads(done.stdout)
    left = {loop for one in told["tried"] if not one["kept"] for loop in one["loops"]}
    assert len(left & set(names[:10])) == 9
    assert left - set(names[:10]) == {"loop-21"}  # the later of the two
    parts = {path.name for path in (morning.repo / "parts").iterdir()}
    assert parts == {"first", "fire"} | (set(names) - left)
    assert told["taken"]["score"] == len(parts) == float(git(morning.repo, "ls-files", "parts").count("\n") + 1)
    assert git(morning.repo, "status", "--porcelain") == ""
    assert sorted(told["taken"]["loops"]) == sorted(set(names) - left)
    assert morning.ralphd("take", "--undo").returncode == 0
    assert morning.head == morning.base


def test_a_submodule_comes_along_as_the_commit_that_is_recorded(morning):
    other = morning.folder / "other"
    other.mkdir()
    git(other, "init", "-q")
    inner = commit(other, "inner")
    entry = f'[submodule "sub"]\n\tpath = sub\n\turl = {other}\n'
    morning.loop("loop-1", {"parts/a": "1", ".gitmodules": entry}, score=2.0)
    tree = morning.folder / "worktrees" / "loop-1"
    git(tree, "update-index", "--add", "--cacheinfo", f"160000,{inner},sub")
    git(tree, "commit", "-q", "-m", "a submodule")
    morning.judged("loop-1", git(tree, "rev-parse", "HEAD"), 2.5)
    morning.over()
    done = morning.ralphd("take", "best", "--merge")
    assert done.returncode == 0, said(done)
    assert "git submodule update" in done.stdout
    assert git(morning.repo, "rev-parse", "HEAD:sub") == inner


def test_without_a_verifier_one_named_loop_is_taken_and_called_unverified(tmp_path):
    morning = Morning(tmp_path, verified=False)
    morning.loop("loop-1", {"parts/a": "1"})
    morning.loop("loop-2", {"parts/b": "1"})
    from ralphd.core import records
    from ralphd.core.outcomes import Kind, Outcome

    for name in ("loop-1", "loop-2"):
        tip = morning.night.heads(f"ralphd/{NIGHT}/")[f"ralphd/{NIGHT}/{name}"].commit
        body = records.TrajectoryEnded(
            outcome=Outcome(kind=Kind.NEXT), head_before=morning.base, head_after=tip, claims_done=False,
            usage=records.Usage(), compactions=None, seconds=1.0, attempts=1, calls=0, leftovers=0, log="/l",
        )  # fmt: skip
        morning.bodies.append((name, body))
    morning.over()
    refused = morning.ralphd("take", "best")
    assert refused.returncode == 2
    assert "name a loop" in refused.stderr
    done = morning.ralphd("take", "loop-2", "--to", "mine")
    assert done.returncode == 0, said(done)
    assert "unverified" in done.stdout
    assert (morning.at("mine^"), morning.at("mine")) == (morning.base, morning.at("mine"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "say what to take"),
        (("best", "loop-1"), 2, "stand alone"),
        (("loop-9",), 3, "no loop named 'loop-9'; there are: loop-1"),
        (("best", "--task", "x"), 2, "no task named 'x'; there are: main"),
        (("best", "--night", "x"), 3, "no night named 'x'"),
        (("best", "--merge", "--to", "x"), 2, "exclude one another"),
        (("best", "--to", "main"), 2, "it exists already"),
        (("best", "--to", "-x"), 2, "can't be the name of a branch"),
        (("best", "--to", "a b"), 2, "can't be the name of a branch"),
        (("loop-1", "--undo"), 2, "takes no loops"),
        (("--undo",), 3, "nothing was taken"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(morning, arguments, code, words):
    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    morning.over()
    done = morning.ralphd("take", *arguments)
    assert done.returncode == code, said(done)
    assert words in done.stderr
    assert "Traceback" not in said(done)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (("--to", "a b"), "'a b' can't be the name of a branch: name another"),
        (("--to", "main"), "'main' could not be made in"),
        ((), f"'take-{NIGHT}-loop-1' could not be made in"),
        (("--patch", "no/such/it.patch"), "there is no folder no/such; make it, or name another file"),
        (("--patch", "shared.txt"), "shared.txt exists already, and stays as it is"),
    ],
)
def test_what_could_not_be_landed_is_refused_before_it_is_verified(morning, wish, words):
    """A verifier may work for an hour."""
    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    morning.over()
    git(morning.repo, "branch", f"take-{NIGHT}-loop-1")
    before = everything(morning.repo)
    done = morning.ralphd("take", "best", *wish)
    assert done.returncode == 2, said(done)
    assert words in done.stderr
    assert "verifying" not in done.stderr
    assert everything(morning.repo) == before


def test_a_patch_that_was_taken_later_does_not_keep_a_merge_from_being_undone(morning):
    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    morning.over()
    assert morning.ralphd("take", "best", "--patch", "-").returncode == 0
    refused = morning.ralphd("take", "--undo")
    assert (refused.returncode, "a patch was written to standard output" in refused.stderr) == (2, True), said(refused)
    assert morning.ralphd("take", "best", "--merge").returncode == 0
    assert morning.ralphd("take", "best", "--patch", "-").returncode == 0
    assert morning.ralphd("take", "--undo").returncode == 0
    assert morning.head == morning.base


def test_a_night_whose_repository_is_gone_says_where_its_work_is(morning):
    import shutil

    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    morning.over()
    shutil.rmtree(morning.night.at)
    done = morning.ralphd("take", "best")
    assert done.returncode == 2
    assert "refs/ralphd/" in done.stderr


def test_two_takes_at_once_land_once(morning):
    morning.loop("loop-1", {"parts/a": "1"}, score=2.0)
    morning.over()
    results: list[subprocess.CompletedProcess[str]] = []
    threads = [threading.Thread(target=lambda: results.append(morning.process("take", "best"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done.returncode for done in results) == [0, 2]
    assert any("it exists already" in done.stderr for done in results)
