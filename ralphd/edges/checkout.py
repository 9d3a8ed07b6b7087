"""The person's repository: what it is like, and how results reach it. Only ``refs/ralphd/`` in it is ever written.

Where a working tree must be looked at, git runs in a *view*: a git folder of ours whose objects and refs are links to
theirs. So neither their index, nor what their repository's configuration would run, is touched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from ralphd.core.errors import GitError, UsageError
from ralphd.core.worktrees import BRANCH_ROOT, MARKS_OF_OPEN_OPERATIONS, RESCUE_ROOT, is_object_id
from ralphd.edges.git import Git, environment, run_git

# What a view takes over from a repository's own configuration: how files and objects look, nothing that runs.
_LOOKS = frozenset(
    {
        "core.autocrlf",
        "core.eol",
        "core.filemode",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.symlinks",
        "extensions.objectformat",
        "extensions.refstorage",
    }
)
LINKED = ("objects", "refs", "packed-refs", "shallow", "reftable")


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A person's checkout. ``head`` is None before the first commit, ``branch`` when HEAD is detached.

    ``uncommitted`` counts paths changed or untracked (a folder of untracked files counts once); ``mid_operation`` names
    what is open ("rebase", "merge", …) or is empty; ``partial`` repositories fetch objects on demand.
    """

    toplevel: str
    git_dir: str
    common_dir: str
    head: str | None
    branch: str | None
    shallow: bool
    partial: bool
    has_submodules: bool
    uncommitted: int
    mid_operation: str

    @property
    def dirty(self) -> bool:
        return self.uncommitted > 0


def describe_repo(path: str) -> Checkout:
    """Look at the checkout that holds ``path`` without changing a byte of it. Raises UsageError when there is none."""
    here, toplevel = os.path.realpath(path), toplevel_of(path)
    git_dir = _discover(here, "--absolute-git-dir")
    common_dir = _discover(here, "--path-format=absolute", "--git-common-dir")
    git = Git(git_dir=git_dir)
    branch = git.answer("symbolic-ref", "--quiet", "HEAD")
    head = git.answer("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return Checkout(
        toplevel=toplevel,
        git_dir=git_dir,
        common_dir=common_dir,
        head=head,
        branch=branch.removeprefix("refs/heads/") if branch else None,
        shallow=os.path.exists(os.path.join(common_dir, "shallow")),
        partial=_is_partial(common_dir),
        has_submodules=os.path.lexists(os.path.join(toplevel, ".gitmodules")),
        uncommitted=_count_uncommitted(toplevel, git_dir, common_dir),
        mid_operation=open_operation(git_dir),
    )


def toplevel_of(path: str) -> str:
    """Return the root of the checkout that holds ``path``, by one call of git. Raises UsageError when there is none."""
    here = os.path.realpath(path)
    if not os.path.isdir(here):
        raise UsageError(f"{path}: no such folder")
    return _discover(here, "--show-toplevel")


def resolve_base(repo: Checkout, rev: str) -> str:
    """Return the commit that ``rev`` names in the person's repository. Raises UsageError when it names none."""
    git = Git(git_dir=repo.git_dir)
    status, out, _ = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
    commit = os.fsdecode(out).strip()
    if status == 0 and is_object_id(commit):
        return commit
    if repo.head is None:
        raise UsageError(
            f"{repo.toplevel} has no commit yet: commit something (`git commit`) for the loops to start from"
        )
    raise UsageError(f"{rev!r} names no commit in {repo.toplevel}: set task.base to a branch, a tag or a commit")


def deliver(repo: Checkout, source: str, night: str) -> tuple[str, ...]:
    """Fetch a night's branches into ``refs/ralphd/<night>/`` and its rescued work into ``refs/ralphd/rescue/<night>/``.

    ``source`` is a git folder whose configuration is ours. Objects and ``refs/ralphd/`` are all that changes.
    Returns the refs of ``source`` that could not be delivered, as their objects are damaged or their history is cut.
    """
    places = {
        f"refs/heads/{BRANCH_ROOT}{night}/": f"refs/ralphd/{night}/",
        f"{RESCUE_ROOT}{night}/": f"{RESCUE_ROOT}{night}/",
    }
    _set_aside(repo, source, night, tuple(places.values()))
    fetch_ref(repo, source, *(f"+{theirs}*:{ours}*" for theirs, ours in places.items()))
    lost = []  # one damaged branch fails them all, so each that isn't there by itself
    for ref, place in _not_there(repo, source, places):
        status, _, err = fetch_ref(repo, source, f"+{ref}:{place}")
        lost += [f"{ref}: {err.strip()[:300]}"] if status else []
    told = {line.partition(": ")[0] for line in lost}
    cut = "its history ends at a commit whose parents are missing, and your repository is not a shallow one"
    return (*lost, *(f"{ref}: {cut}" for ref, _ in _not_there(repo, source, places) if ref not in told))


def _not_there(repo: Checkout, source: str, places: Mapping[str, str]) -> list[tuple[str, str]]:
    """List the refs of ``source`` that ``repo`` doesn't have, with their places: git skips some and exits with 0."""
    listing = "--format=%(objectname) %(refname)"
    have = set(Git(git_dir=repo.common_dir).text("for-each-ref", listing, *places.values()).splitlines())
    missing = []
    for theirs, ours in places.items():
        for line in Git(git_dir=source).text("for-each-ref", listing, theirs).splitlines():
            commit, ref = line.split(" ", 1)
            place = f"{ours}{ref.removeprefix(theirs)}"
            missing += [] if f"{commit} {place}" in have else [(ref, place)]
    return missing


def delivered_nights(repo: Checkout) -> set[str]:
    """Return the nights that have results in the person's repository, whatever state folder they were run from."""
    found = Git(git_dir=repo.common_dir).text("for-each-ref", "--format=%(refname)", "refs/ralphd/")
    return {ref.removeprefix(RESCUE_ROOT).removeprefix("refs/ralphd/").split("/", 1)[0] for ref in found.splitlines()}


def _set_aside(repo: Checkout, source: str, night: str, places: tuple[str, ...]) -> None:
    """Keep what a night of the same name left there: two state folders know nothing of each other."""
    git = Git(git_dir=repo.common_dir)
    for line in git.text("for-each-ref", "--format=%(objectname) %(refname)", *places).splitlines():
        commit, ref = line.split(" ", 1)
        if Git(git_dir=source).run("cat-file", "-e", commit)[0] != 0:
            aside = f"{RESCUE_ROOT}{night}/another/{ref.rpartition('/')[2]}-{commit[:12]}"
            git("update-ref", "--no-deref", aside, commit)


def fetch_ref(repo: Checkout, source: str, *refspecs: str) -> tuple[int, bytes, str]:
    """Fetch by path into the person's repository and change nothing but what ``refspecs`` name; as `Git.run`."""
    return Git(git_dir=repo.common_dir).run(
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-prune",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
        "--no-write-commit-graph",
        "--refmap=",
        source,
        *refspecs,
    )


def open_operation(git_dir: str) -> str:
    for mark, operation in MARKS_OF_OPEN_OPERATIONS:
        if os.path.lexists(os.path.join(git_dir, mark)):
            return operation
    return ""


def make_view(at: str, common_dir: str, head: str, *, relative: bool = False) -> None:
    """Make ``at`` a git folder with the objects and refs of ``common_dir`` and a configuration of our own."""
    os.mkdir(at, 0o700)
    os.mkdir(os.path.join(at, "info"))
    for name in LINKED:
        target = os.path.join(common_dir, name)
        if name in ("packed-refs", "shallow") or os.path.lexists(target):  # the first two may come later
            os.symlink(os.path.relpath(target, at) if relative else target, os.path.join(at, name))
    _write(os.path.join(at, "HEAD"), head.encode() + b"\n")
    _write(os.path.join(at, "config"), configuration([("core.repositoryformatversion", "1"), *_looks(common_dir)]))


def configuration(settings: list[tuple[str, str]]) -> bytes:
    """Return the text of a git configuration file that holds ``settings`` (``section.key``, value), quoted."""
    lines = []
    for name, value in settings:
        section, key = name.rsplit(".", 1)
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'[{section}]\n\t{key} = "{escaped}"\n')
    return os.fsencode("".join(lines))


@contextmanager
def index_copy(git_dir: str) -> Iterator[str]:
    """Give a copy of a worktree's index to work with: its cached file times spare reading every file."""
    with TemporaryDirectory(prefix="ralphd-index-") as folder:
        index = os.path.join(folder, "index")
        theirs = os.path.join(git_dir, "index")
        if os.path.exists(theirs) and not _is_split(git_dir):
            shutil.copy2(theirs, index)
        yield index


def _is_split(git_dir: str) -> bool:
    # A split index finds its other half beside it: a copy elsewhere would be broken.
    return any(name.startswith("sharedindex.") for name in os.listdir(git_dir))


def _discover(here: str, *what: str) -> str:
    status, out, err = run_git(["-C", here, "rev-parse", *what], environment({}, user_config=True), b"", seconds=30)
    if status == 0:
        return os.fsdecode(out.removesuffix(b"\n"))
    if "work tree" in err:
        raise UsageError(
            f"{here} is inside a bare repository or a .git folder: give a checkout of it (`git worktree add`)"
        )
    if "not a git repository" in err:
        raise UsageError(f"{here} is not in a git repository: `git init && git add -A && git commit` makes it one")
    if "extension" in err or "repo version" in err:  # of a newer git, as reftable is before 2.45
        raise UsageError(
            f"{here}: this git is too old for the repository ({' '.join(err.split())[:200]}): update git, or give a "
            f"clone that it can read"
        )
    raise GitError(f"{here}: git can't read this repository: {err.strip()[:300]}", stderr=err)


def _is_partial(common_dir: str) -> bool:
    packs = os.path.join(common_dir, "objects", "pack")
    return os.path.isdir(packs) and any(name.endswith(".promisor") for name in os.listdir(packs))


def _count_uncommitted(toplevel: str, git_dir: str, common_dir: str) -> int:
    with TemporaryDirectory(prefix="ralphd-view-") as folder, index_copy(git_dir) as index:
        view = os.path.join(folder, "git")
        with open(os.path.join(git_dir, "HEAD"), encoding="utf-8", errors="surrogateescape") as head:
            make_view(view, common_dir, head.read().strip())
        copy_excludes(common_dir, view)
        git = Git(git_dir=view).within(work_tree=toplevel, index=index, user_config=True)
        if not os.path.exists(index):
            git("read-tree", "HEAD") if git.answer("rev-parse", "--verify", "--quiet", "HEAD") else None
        status, listed, err = git.run("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all")
    if status:
        why = err.strip().partition("\n")[0][:300]
        raise GitError(f"{toplevel}: git can't compare the checkout with its commit: {why}; try `git fsck` there")
    return listed.count(b"\0")


def copy_excludes(common_dir: str, git_dir: str) -> None:
    theirs = os.path.join(common_dir, "info", "exclude")
    if os.path.isfile(theirs):
        os.makedirs(os.path.join(git_dir, "info"), exist_ok=True)
        shutil.copyfile(theirs, os.path.join(git_dir, "info", "exclude"))


def _looks(common_dir: str) -> list[tuple[str, str]]:
    config = os.path.join(common_dir, "config")
    if not os.path.exists(config):
        return []
    git = Git(git_dir=common_dir)
    listed = os.fsdecode(git("config", "--file", config, "--no-includes", "--null", "--list"))
    pairs = (entry.partition("\n") for entry in listed.split("\0") if entry)
    return [(name, value if mark else "true") for name, mark, value in pairs if name in _LOOKS]


def _write(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
