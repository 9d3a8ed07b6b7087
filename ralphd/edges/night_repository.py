"""Where the loops of a night commit: a bare clone, which the daemon reads with a configuration it owns.

``<at>/repo.git`` is the loops' side: whatever they do to its configuration and hooks lands there. ``<at>/control.git``
has the same objects and refs by links and everything else of its own; every git the daemon starts uses that one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ralphd.core.errors import GitError, UsageError
from ralphd.core.worktrees import RESCUE_ROOT, admin_folder, is_branch, is_object_id, link_files
from ralphd.edges import guarded_files, own_view
from ralphd.edges.checkout import Checkout, copy_excludes, describe_repo, index_copy, make_view
from ralphd.edges.clone import (
    files_below,
    identity,
    link_objects,
    make_bare,
    replace_file,
    require_whole,
    write_settings,
)
from ralphd.edges.git import Git

BASE_REF = "refs/ralphd/base"
_SUBJECT_LIMIT_BYTES = 400
_GUARDED_FILE_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Base:
    """What the loops start from. ``uncommitted`` paths of the checkout are in it when ``included``, else left out.

    ``guarded``: the digest of the kept copies of the repository's configuration.
    """

    commit: str
    uncommitted: int
    included: bool
    guarded: str = ""


@dataclass(frozen=True, kw_only=True)
class Tip:
    """A branch's end. ``tree`` is empty where the objects are damaged."""

    commit: str
    tree: str


@dataclass(frozen=True, kw_only=True)
class Linked:
    """A loop's worktree, tied and not yet checked out. ``moved_aside`` is where a leftover folder went, or empty."""

    worktree: str
    branch: str
    head: str
    moved_aside: str


class NightRepository:
    """The git side of one night. Nothing here reads a configuration, a hook or an index that a loop can write."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.git_dir = os.path.join(at, "repo.git")
        self.control = os.path.join(at, "control.git")
        self.kept = os.path.join(at, "guarded")
        self.aside = os.path.join(at, "guarded-aside")
        self.lock = os.path.join(at, "worktree.lock")  # the pane takes it too
        self._git = Git(git_dir=self.control)

    @classmethod
    def create(
        cls, source: Checkout, at: str, base: str, *, with_uncommitted: bool = False
    ) -> tuple[NightRepository, Base]:
        """Clone ``source`` (objects hard-linked) into the new folder ``at`` for loops to start from commit ``base``.

        Raises UsageError where ``source`` can't serve, and leaves nothing behind then.
        """
        if os.path.lexists(at):
            raise UsageError(f"{at} exists already: a night repository is made once")
        building = f"{at}.building"
        shutil.rmtree(building, ignore_errors=True)
        os.makedirs(building, 0o700)
        try:
            made = cls(building)
            made._fill(source, base)
            start = made._base(source, base, with_uncommitted=with_uncommitted)
            start = replace(start, guarded=guarded_files.keep(made.git_dir, made.kept))
            os.rename(building, at)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        return cls(at), start

    def add_worktree(self, path: str, branch: str, base: str) -> Linked:
        """Tie one worktree, as `add_worktrees` does."""
        return self.add_worktrees([(path, branch)], base)[0]

    def add_worktrees(
        self, wanted: Sequence[tuple[str, str]], base: str, tips: Mapping[str, str] | None = None
    ) -> tuple[Linked, ...]:
        """Tie each path to its branch. Does nothing where that is so already.

        A branch that isn't there is made where ``tips`` says it was last, else at ``base``.

        Converges from any mixture of leftovers. A folder that isn't this worktree is moved aside, never removed.
        """
        branches = [branch for _, branch in wanted]
        if len(set(branches)) < len(branches):
            twice = max(branches, key=branches.count)
            raise UsageError(f"{twice} was given to two loops: each has a branch and a worktree of its own")
        for branch in branches:
            if not is_branch(branch):
                raise UsageError(f"{branch!r} is no branch of a loop: ralphd/<night>/<loop>, ids of a-z, 0-9 and -")
        with self._locked():
            heads = self._make_branches(branches, base, tips or {})
            return tuple(self._tie(path, branch, heads[branch]) for path, branch in wanted)

    def _make_branches(self, branches: Sequence[str], base: str, tips: Mapping[str, str]) -> dict[str, str]:
        refs = [f"refs/heads/{branch}" for branch in branches]
        listed = self._git.text("for-each-ref", "--format=%(refname) %(objectname)", *refs)
        heads = dict(line.split(" ") for line in listed.splitlines())
        wanted = zip(branches, refs, strict=True)
        starts = {ref: self._start(tips.get(branch, ""), base) for branch, ref in wanted if ref not in heads}
        if starts:
            made = "".join(f"create {ref} {start}\n" for ref, start in starts.items())
            self._git("update-ref", "--no-deref", "--stdin", stdin=made.encode())
        return {branch: (heads | starts)[ref] for branch, ref in zip(branches, refs, strict=True)}

    def _start(self, tip: str, base: str) -> str:
        """Return the commit that a missing branch is made at: its former tip, if that can still be had."""
        known = is_object_id(tip) and tip != base and self._git.run("cat-file", "-e", f"{tip}^{{tree}}")[0] == 0
        return tip if known else base

    def _tie(self, path: str, branch: str, head: str) -> Linked:
        files = link_files(self.git_dir, path, branch)
        if not os.path.islink(path) and all(_holds(*file) for file in files[1:]):
            return Linked(worktree=path, branch=branch, head=head, moved_aside="")
        aside = _move_aside(path)
        shutil.rmtree(admin_folder(self.git_dir, branch), ignore_errors=True)  # an index of files that are gone
        for name, text in files:
            _make_private(os.path.dirname(name))
            replace_file(name, text)
        return Linked(worktree=path, branch=branch, head=head, moved_aside=aside)

    def heads(self, prefix: str) -> dict[str, Tip]:
        """Return the tips of all branches below ``prefix`` (``ralphd/<night>/``) by their names, in one git."""
        where = f"refs/heads/{prefix.rstrip('/')}"
        try:
            listed = self._git("for-each-ref", "--format=%(refname)%00%(objectname)%00%(tree)", where)
        except GitError:  # one damaged branch makes git refuse them all
            return self._heads_one_by_one(where)
        rows = (os.fsdecode(line).split("\0") for line in listed.splitlines())
        return {name.removeprefix("refs/heads/"): Tip(commit=commit, tree=tree) for name, commit, tree in rows}

    def _heads_one_by_one(self, where: str) -> dict[str, Tip]:
        listed = os.fsdecode(self._git("for-each-ref", "--format=%(refname)%00%(objectname)", where))
        rows = [line.split("\0") for line in listed.splitlines()]
        asked = "".join(f"{commit}^{{tree}}\n" for _, commit in rows).encode()
        trees = os.fsdecode(self._git("cat-file", "--batch-check=%(objectname)", stdin=asked)).splitlines()
        return {
            name.removeprefix("refs/heads/"): Tip(commit=commit, tree=tree if is_object_id(tree) else "")
            for (name, commit), tree in zip(rows, trees, strict=True)
        }

    def changed_paths(self, old: str, new: str) -> tuple[str, ...]:
        """Return the paths that differ between two commits, a rename as both its paths."""
        return changed_paths(self._git, old, new)

    def is_ancestor(self, old: str, new: str) -> bool:
        return self._git.answer("merge-base", "--is-ancestor", old, new) is not None

    def holds(self, branch: str, commit: str) -> bool:
        """Tell whether ``branch`` is there and can be seen to have ``commit`` in it."""
        return self._git.run("merge-base", "--is-ancestor", commit, f"refs/heads/{branch}")[0] == 0

    def renew_branch(self, branch: str, tips: Sequence[str]) -> None:
        """Make a branch that its loop deleted or renamed once more, at the first of ``tips`` that can be had."""
        ref = f"refs/heads/{branch}"
        if self._git.run("rev-parse", "--verify", "--quiet", ref)[0] == 0:
            return
        start = next((start for tip in tips if (start := self._start(tip, ""))), "")
        if start:  # in vain where a stray branch has the name of a folder above: its best commit is kept all the same
            self._git.run("update-ref", "--no-deref", ref, start, "0" * len(start))

    def commits_between(self, base: str, head: str) -> int:
        return int(self._git.text("rev-list", "--count", f"{base}..{head}"))

    def tree_of(self, commit: str) -> str:
        return self._git.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    def subject_of(self, commit: str) -> str:
        """Return the first line of a commit's message for display: capped, one line, no control characters."""
        line = self._git("log", "-1", "--no-show-signature", "--format=%s", commit, "--")[:_SUBJECT_LIMIT_BYTES]
        return "".join(
            letter if letter.isprintable() else "\ufffd" for letter in line.decode("utf-8", "replace").rstrip("\n")
        )

    def keep(self, night: str, name: str, commit: str) -> None:
        """Hold a commit by a rescue ref: its loop may have amended it, reset over it or moved its branch since."""
        self._git("update-ref", "--no-deref", f"{RESCUE_ROOT}{night}/{name}", commit)

    def fingerprint(self) -> dict[str, str]:
        """Return a digest of every file that can make git run something, by its path in the night repository."""
        found = {}
        for name in guarded_files.GUARDED:
            path = os.path.join(self.git_dir, name)
            found.update({os.path.relpath(file, self.git_dir): _digest(file) for file in files_below(path)})
        return found

    def put_back_guarded(self, digest: str, source: str, seen: dict[str, tuple[int, ...]]) -> tuple[str, ...]:
        """Make what `fingerprint` watches, and each loop's own configuration, what it was; returns what was put back.

        ``digest`` is that of the copies (empty: of an older night): copies that were changed too are made anew, for
        the person whose checkout ``source`` is. ``seen`` is kept between calls. Raises OSError.
        """
        if digest and guarded_files.digest(self.kept) != digest:
            self._keep_anew(source)
        ours = self.put_view_back()
        own = tuple(guarded_files.own_spoilt(self._git, self.git_dir, seen))
        for name in own:
            guarded_files.put_own_back(self._git, self.git_dir, name, self.aside)
        return *ours, *guarded_files.put_back(self._git, self.git_dir, self.kept, self.aside), *own

    def put_view_back(self) -> tuple[str, ...]:
        """See that ``control`` is what it was made as; returns what wasn't. Raises OSError."""
        return tuple(f"control.git/{name}" for name in own_view.put_back(self.control, self.git_dir, self.aside))

    def deepen(self) -> None:
        """Forget where history was cut if what came before is here: `git fetch --depth` cuts what was whole.

        Nothing could be brought over a cut into a repository that has none.
        """
        path = os.path.join(self.git_dir, "shallow")
        if not os.path.lexists(path):
            return
        cuts = [line for line in os.fsdecode(_content(path) or b"").splitlines() if is_object_id(line)]
        real = [cut for cut in cuts if not self._has_parents(cut)]
        if real:
            replace_file(path, "".join(f"{cut}\n" for cut in real))
        else:
            os.unlink(path)

    def _has_parents(self, commit: str) -> bool:
        whole = ("--shallow-file", "")
        status, text, _ = self._git.run(*whole, "cat-file", "commit", commit)
        headers = os.fsdecode(text.partition(b"\n\n")[0]).splitlines()
        parents = [line.removeprefix("parent ") for line in headers if line.startswith("parent ")]
        return status == 0 and all(self._git.run(*whole, "cat-file", "-e", parent)[0] == 0 for parent in parents)

    def _keep_anew(self, source: str) -> None:
        if os.path.lexists(self.kept):
            os.makedirs(self.aside, mode=0o700, exist_ok=True)
            os.rename(self.kept, os.path.join(self.aside, f"guarded-{time.time_ns()}"))
        try:
            person = identity(describe_repo(source))
        except (UsageError, GitError):  # the checkout is gone: an agent commits as we do
            person = [("user.name", "ralphd"), ("user.email", "ralphd@localhost")]
        os.mkdir(self.kept, 0o700)
        write_settings(self.kept, self._git.text("rev-parse", "--show-object-format"), person)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.lock, "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # ends with the file, so also with us
            yield

    def _fill(self, source: Checkout, base: str) -> None:
        plain = Git(git_dir=source.git_dir)
        layout = plain.text("rev-parse", "--show-object-format")
        make_bare(self.git_dir, layout, base, identity(source))
        link_objects(os.path.join(source.common_dir, "objects"), os.path.join(self.git_dir, "objects"))
        if source.shallow:
            shutil.copyfile(os.path.join(source.common_dir, "shallow"), os.path.join(self.git_dir, "shallow"))
        copy_excludes(source.common_dir, self.git_dir)
        make_view(self.control, self.git_dir, base, relative=True)
        copy_excludes(source.common_dir, self.control)
        require_whole(self._git, source, base)
        tags = plain("for-each-ref", "--merged", base, "--format=create %(refname) %(objectname)", "refs/tags")
        # Tags: the version that a project's own build takes from git. No branch: none is anybody's to move.
        self._git("update-ref", "--stdin", stdin=tags + f"create {BASE_REF} {base}\n".encode())

    def _base(self, source: Checkout, base: str, *, with_uncommitted: bool) -> Base:
        if not with_uncommitted or not source.dirty:
            return Base(commit=base, uncommitted=source.uncommitted, included=False)
        if base != source.head:
            raise UsageError("--with-uncommitted starts from what is checked out: leave task.base at HEAD")
        if source.mid_operation:
            raise UsageError(f"a {source.mid_operation} is open in {source.toplevel}: finish or abort it first")
        with index_copy(source.git_dir) as index:
            git = self._git.within(work_tree=source.toplevel, index=index, user_config=True)
            if not os.path.exists(index):
                git("read-tree", base)
            status, _, err = git.run("add", "--all", "--", ".")
            if status:
                raise UsageError(f"--with-uncommitted: git can't add all of {source.toplevel}: {err.strip()[:300]}")
            tree = git.text("write-tree")
        message = f"Uncommitted changes of {os.path.basename(source.toplevel)} at the start of the night"
        commit = self._git.text("commit-tree", tree, "-p", base, "-m", message)
        self._git("update-ref", BASE_REF, commit)
        replace_file(os.path.join(self.git_dir, "HEAD"), commit + "\n")
        return Base(commit=commit, uncommitted=len(self.changed_paths(base, commit)), included=True)


def changed_paths(git: Git, old: str, new: str) -> tuple[str, ...]:
    listed = git(
        "diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--name-only", old, new, "--"
    )
    return tuple(os.fsdecode(path) for path in listed.split(b"\0") if path)


def _holds(path: str, text: str) -> bool:
    content = _content(path)
    return content is not None and content == os.fsencode(text)


def _content(path: str) -> bytes | None:
    """Read a small plain file that somebody hostile may have replaced: no link is followed, no pipe waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(fd, _GUARDED_FILE_LIMIT_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)


def _make_private(folder: str) -> None:
    """Make a folder and what is missing above it, each 0700: os.makedirs gives its mode to the last one only."""
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _move_aside(path: str) -> str:
    if not os.path.lexists(path):
        return ""
    if os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path):
        return ""
    aside = f"{path}.aside-{time.time_ns()}"
    os.rename(path, aside)
    return aside


def _digest(path: str) -> str:
    if os.path.islink(path):
        return f"link to {os.readlink(path)}"
    content = _content(path)
    return "unreadable" if content is None else f"{os.lstat(path).st_size} {hashlib.sha256(content).hexdigest()}"
