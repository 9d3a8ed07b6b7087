"""Where candidates are verified: a checkout apart, made anew each time, with a git folder that no loop ever sees.

Whatever a former candidate's own code did, to the files or to that git folder, is out of the way before git runs again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ralphd.core.errors import GitError
from ralphd.core.globs import matches
from ralphd.edges.checkout import configuration
from ralphd.edges.git import Git
from ralphd.edges.night_repository import NightRepository


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A bench that holds a candidate. ``tampered``: protected paths that differ from the base; the base's are there."""

    tree: str
    commit: str
    tampered: tuple[str, ...]


class Bench:
    """One place to verify in, for one candidate at a time. ``tree`` is the checkout, always the same path.

    With a setup: ``prepare`` the base, run the setup in ``tree``, ``save()``. From then on each candidate starts from
    what the setup made (`is_saved`).
    """

    def __init__(self, night: NightRepository, at: str) -> None:
        self.at = at
        self.tree = os.path.join(at, "tree")
        self._night = night
        self._saved = os.path.join(at, "saved")
        self._trash = os.path.join(at, "trash")
        self._git_dir = os.path.join(at, "git")
        self._git = Git(git_dir=self._git_dir, work_tree=self.tree)
        os.makedirs(self._trash, 0o700, exist_ok=True)

    @property
    def is_saved(self) -> bool:
        return os.path.isdir(self._saved)

    def prepare(self, commit: str, protect: Sequence[str], base: str) -> Prepared:
        """Check out ``commit`` with the protected paths as they are in ``base``. Raises GitError where git can't."""
        self._clear()
        self._make_git_dir(commit)
        tampered = tuple(path for path in self._night.changed_paths(base, commit) if matches(path, protect))
        if self.is_saved:
            _run("cp", "-a", "--reflink=auto", "--", self._saved, self.tree)
            self._remove_what_left(base, commit)
        else:
            os.mkdir(self.tree, 0o700)
        self._git("read-tree", commit)
        if tampered:
            self._git("update-index", "-z", "--index-info", stdin=self._entries(base, tampered))
        self._git("checkout-index", "--all", "--force")
        with open(os.path.join(self.tree, ".git"), "xb") as link:  # a verifier may ask git
            link.write(b"gitdir: ../git\n")
        return Prepared(tree=self.tree, commit=commit, tampered=tampered)

    def save(self) -> None:
        """Keep ``tree`` as what every later candidate starts from. There is no tree until the next ``prepare``."""
        self._discard(self._saved)
        self._discard(os.path.join(self.tree, ".git"))
        os.rename(self.tree, self._saved)

    def _clear(self) -> None:
        """Get what is there out of the way by renaming, which nothing in it can prevent; then delete what can be."""
        for path in (self.tree, self._git_dir):
            self._discard(path)
        _delete([os.path.join(self._trash, name) for name in os.listdir(self._trash)])

    def _discard(self, path: str) -> None:
        if os.path.lexists(path):
            if not os.path.islink(path):
                os.chmod(path, 0o700)  # a read-only folder can't change its parent
            os.rename(path, os.path.join(self._trash, str(time.time_ns())))

    def _make_git_dir(self, commit: str) -> None:
        for folder in ("objects/info", "refs/heads"):
            os.makedirs(os.path.join(self._git_dir, folder), 0o700)
        settings = [("core.repositoryformatversion", "1"), ("gc.auto", "0"), ("advice.detachedHead", "false")]
        if len(commit) == 64:
            settings.append(("extensions.objectFormat", "sha256"))
        shallow = os.path.join(self._night.git_dir, "shallow")
        if os.path.isfile(shallow):
            shutil.copyfile(shallow, os.path.join(self._git_dir, "shallow"))
        # A relative line through a link of ours: a path with a newline or a colon needs no quoting then.
        os.symlink(os.path.join(self._night.git_dir, "objects"), os.path.join(self._git_dir, "objects", "night"))
        files = {
            "HEAD": f"{commit}\n".encode(),
            "config": configuration(settings),
            "objects/info/alternates": b"night\n",
        }
        for name, content in files.items():
            with open(os.path.join(self._git_dir, name), "xb") as file:
                file.write(content)

    def _remove_what_left(self, base: str, commit: str) -> None:
        """Remove from the saved files those of the base that the candidate doesn't have. No link is ever followed."""
        gone = self._git("diff-tree", "-r", "-z", "--no-renames", "--diff-filter=D", "--name-only", base, commit, "--")
        tree = os.open(self.tree, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for path in filter(None, gone.split(b"\0")):
                with suppress(OSError):  # other files are beside it, or the setup made something else of it
                    _unlink_below(tree, path.split(b"/"))
        finally:
            os.close(tree)

    def _entries(self, base: str, paths: Sequence[str]) -> bytes:
        """Return index lines that put ``paths`` back to what they are in ``base``: first what goes, then what comes."""
        wanted, nothing = set(paths), "0" * len(base)
        there = {}
        for entry in os.fsdecode(self._git("ls-tree", "-r", "-z", "--full-tree", base)).split("\0"):
            facts, _, path = entry.partition("\t")
            if path in wanted:
                there[path] = facts
        lines = [f"0 {nothing}\t{path}\0" for path in paths if path not in there]
        lines += [f"{facts}\t{path}\0" for path, facts in there.items()]
        return os.fsencode("".join(lines))


def _unlink_below(folder_fd: int, names: Sequence[bytes]) -> None:
    """Remove a file and the folders that are empty without it."""
    if len(names) == 1:
        os.unlink(names[0], dir_fd=folder_fd)
        return
    below = os.open(names[0], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder_fd)
    try:
        _unlink_below(below, names[1:])
    finally:
        os.close(below)
    os.rmdir(names[0], dir_fd=folder_fd)


def _delete(paths: Sequence[str]) -> None:
    """Delete trees of any depth, read-only folders included. What resists stays in the trash, in nobody's way."""
    if not paths or _run("rm", "-rf", "--", *paths, may_fail=True):
        return
    _run("chmod", "-R", "u+rwx", "--", *paths, may_fail=True)
    _run("rm", "-rf", "--", *paths, may_fail=True)


def _run(*argv: str, may_fail: bool = False) -> bool:
    done = subprocess.run(
        argv,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode and not may_fail:
        raise GitError(f"{argv[0]} failed: {done.stderr.decode('utf-8', 'replace').strip()[:300]}")
    return done.returncode == 0
