"""How a night's commits are joined without a working tree, and how the result reaches the person's repository.

Joining happens in the night repository, whose git runs nothing that an agent wrote. In the person's repository a branch
is made, or their checkout is moved forward by their own git: nothing of theirs is ever overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ralphd.core.errors import GitError, UsageError
from ralphd.core.taking import Joined, Pick
from ralphd.edges.checkout import Checkout, fetch_ref
from ralphd.edges.git import Git
from ralphd.edges.night_repository import NightRepository

MERGE_TREE_SINCE = "2.38"  # `git merge-tree --write-tree`: a merge that needs no files
PATHS_NAMED = 5
SUBJECT_CHARS = 200
_LOGGED = ("-c", "core.logAllRefUpdates=true")  # their own reflog is one more way back


@dataclass(frozen=True)
class Workshop:
    """The night repository, where commits are joined."""

    night: NightRepository

    @property
    def git(self) -> Git:
        return Git(git_dir=self.night.control)

    def require(self) -> None:
        """Refuse to go on without the night's repository. Raises UsageError.

        A merge runs what a configuration names, so ours must be ours.
        """
        if not os.path.isdir(self.night.control):
            raise UsageError(
                f"{self.night.at} is gone, so nothing can be verified again; "
                "what the night brought over is in refs/ralphd/ of your repository"
            )
        self.night.put_view_back()
        self.night.deepen()

    def tree_of(self, commit: str) -> str:
        return self.night.tree_of(commit)

    def fetch_head(self, checkout: Checkout) -> str:
        """Bring what the person has checked out into the night repository; returns the commit."""
        if checkout.head is None:
            raise UsageError(f"{checkout.toplevel} has no commit")
        if self.git.run("cat-file", "-e", f"{checkout.head}^{{tree}}")[0] == 0:
            return checkout.head
        ref = f"refs/ralphd/take/{checkout.head}"  # held, so that no clean-up takes its objects away
        status, _, err = self.git.run(
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=",
            checkout.git_dir, f"+HEAD:{ref}",
        )  # fmt: skip
        if status:
            raise GitError(f"what is checked out in {checkout.toplevel} can't be read: {err.strip()[:300]}", stderr=err)
        return checkout.head

    def join(self, onto: str, picks: Sequence[Pick], message: str) -> Joined:
        """Put each pick on top of the one before by a merge, or by nothing at all where one contains the other."""
        commit = onto
        for pick in picks:
            if self.night.is_ancestor(pick.commit, commit):
                continue
            if self.night.is_ancestor(commit, pick.commit):
                commit = pick.commit
                continue
            tree, conflicts = self._merge_trees(commit, pick.commit)
            if conflicts:
                return Joined(conflicts=conflicts)
            said = message.format(loop=pick.loop)
            commit = self.git.text("commit-tree", tree, "-p", commit, "-p", pick.commit, "-m", said)
        return Joined(commit=commit, tree=self.tree_of(commit))

    def _merge_trees(self, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
        status, out, err = self.git.run(
            "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs
        )
        parts = [os.fsdecode(part) for part in out.split(b"\0") if part]
        if status == 0 and parts:
            return parts[0], ()
        if status == 1 and parts:
            return "", tuple(dict.fromkeys(parts[1:])) or ("(unnamed)",)
        if "usage: git merge-tree" in err or "unknown option" in err:
            raise UsageError(
                f"joining commits needs git {MERGE_TREE_SINCE} or later; take one loop at a time without it"
            )
        raise GitError(f"git can't join {ours[:12]} and {theirs[:12]}: {err.strip()[:300]}", stderr=err)

    def subjects(self, commits: Sequence[str]) -> dict[str, str]:
        """Return the first line of each commit's message; one that isn't there has none."""
        if not commits:
            return {}
        asked = "".join(f"{commit}\n" for commit in commits).encode()
        listed = self.git("rev-list", "--no-walk=unsorted", "--ignore-missing", "--format=%s", "--stdin", stdin=asked)
        lines = listed.decode("utf-8", "replace").splitlines()
        pairs = zip(lines[::2], lines[1::2], strict=False)
        return {head.removeprefix("commit "): subject[:SUBJECT_CHARS] for head, subject in pairs}

    def patch(self, old: str, new: str) -> bytes:
        """Return a patch that `git apply` takes, binary files included."""
        return self.git(
            "diff-tree",
            "-p",
            "--binary",
            "--full-index",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            old,
            new,
            "--",
        )

    def changes(self, old: str, new: str) -> tuple[int, int, int]:
        """Return how many files, added and removed lines differ; binary files count as files only."""
        listed = self.git(
            "diff-tree", "-r", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", old, new, "--"
        )
        rows = [row.split(b"\t", 2) for row in listed.split(b"\0") if row.count(b"\t") >= 2]
        added = sum(int(row[0]) for row in rows if row[0].isdigit())
        return len(rows), added, sum(int(row[1]) for row in rows if row[1].isdigit())


def bring(checkout: Checkout, workshop: Workshop, commit: str, ref: str) -> None:
    """Fetch ``commit`` into the person's repository, held by ``ref`` (below ``refs/ralphd/``)."""
    held = f"refs/ralphd/take/{commit}"
    workshop.git("update-ref", "--no-deref", held, commit)
    status, _, err = fetch_ref(checkout, workshop.night.control, f"+{held}:{ref}")
    if status:
        raise GitError(f"{commit[:12]} could not be brought into {checkout.toplevel}: {err.strip()[:300]}", stderr=err)


def move_forward(checkout: Checkout, commit: str) -> None:
    """Let the person's own branch and files go forward to ``commit``. Raises UsageError; then nothing has changed."""
    status, _, err = _theirs(checkout).run(*_LOGGED, "merge", "--ff-only", "--no-stat", "--quiet", commit)
    if status:
        raise UsageError(
            f"your checkout could not go forward to {commit[:12]}: {_told(err)}; nothing has changed. "
            "Mend that and take again, or take without --merge, which makes a branch"
        )


def move_back(checkout: Checkout, now: str, to: str) -> None:
    """Undo `move_forward`: back to ``to`` if the checkout still is at ``now``; no change of theirs is lost."""
    if checkout.head != now:
        raise UsageError(
            f"{checkout.toplevel} has gone on since (it is at {(checkout.head or 'nothing')[:12]}, not at {now[:12]}): "
            f"nothing was undone; `git revert` can take single commits back"
        )
    status, _, err = _theirs(checkout).run(*_LOGGED, "reset", "--keep", "--quiet", to)
    if status:
        raise UsageError(f"nothing was undone: {_told(err)}; commit or stash your changes to these files first")


def delete_branch(checkout: Checkout, name: str, commit: str) -> None:
    """Delete a branch that still is where we made it. Raises UsageError otherwise."""
    git = Git(git_dir=checkout.common_dir)
    if checkout.branch == name:
        raise UsageError(f"{name} is checked out in {checkout.toplevel}: switch to another branch first")
    at = git.answer("rev-parse", "--verify", "--quiet", f"refs/heads/{name}")
    if at is None:
        return
    if at != commit:
        raise UsageError(f"{name} has gone on since it was made: delete it yourself if you want that (git branch -D)")
    git("update-ref", "--no-deref", "-d", f"refs/heads/{name}", commit)


def changed_files(checkout: Checkout) -> tuple[str, ...]:
    """Return the tracked files with uncommitted changes, in the index or beside it."""
    git = _theirs(checkout)
    status, listed, err = git.run(
        "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty"
    )
    if status:
        raise GitError(f"{checkout.toplevel}: git can't compare the checkout with its commit: {_told(err)}", stderr=err)
    return tuple(os.fsdecode(entry[3:]) for entry in listed.split(b"\0") if entry)


def _theirs(checkout: Checkout) -> Git:
    return Git(git_dir=checkout.git_dir, work_tree=checkout.toplevel, user_config=True)


def _told(err: str) -> str:
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return "; ".join(lines[:PATHS_NAMED])[:500] or "git said nothing"
