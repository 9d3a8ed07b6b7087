"""The loop's worktree: what its files say of its state, and how it gets its first checkout."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass

from ralphd.core.worktree_facts import (
    OWN_LOCK_STALE_AFTER_S,
    PASSING_LOCK_STALE_AFTER_S,
    SHARED_LOCK_STALE_AFTER_S,
    Lock,
    WorktreeFacts,
)
from ralphd.core.worktrees import MARKS_OF_OPEN_OPERATIONS, admin_folder, is_object_id, link_files, newest_of_log
from ralphd.pane.filters import instead_of_theirs
from ralphd.pane.git import Git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SMALL_FILE_LIMIT_BYTES = 8192  # HEAD, a loose ref, a link: all far shorter
_PACKED_REFS_LIMIT_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a loop works. ``source`` is the person's checkout, from which ``include`` (ignored files) is copied.

    ``git_dir`` is the night repository's folder; ``sparse`` the folders to check out, empty for all.
    """

    worktree: str
    git_dir: str
    branch: str
    source: str = ""
    include: tuple[str, ...] = ()
    sparse: tuple[str, ...] = ()

    @property
    def admin(self) -> str:
        return admin_folder(self.git_dir, self.branch)

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    @property
    def ready(self) -> str:
        """The file that says that the first checkout is complete: from then on, files may be unsaved work."""
        return f"{self.admin}/ralphd-ready"

    def git(self, index: str = "") -> Git:
        return Git(self.admin, self.worktree, index, instead_of_theirs(self.git_dir, self.admin))


def look(place: Place, now_s: float) -> WorktreeFacts:
    """Read the state of a worktree from files alone, in under a millisecond. ``now_s``: seconds since the epoch."""
    on_branch, at = _head(place)
    names = _names(place.worktree)
    return WorktreeFacts(
        worktree=place.worktree,
        git_dir=place.git_dir,
        branch=place.branch,
        exists=names is not None,
        has_files=bool(names and names - {".git"}),
        linked=bool(on_branch or at) and names is not None and _is_tied(place),
        has_index=_bytes(f"{place.admin}/index", 4) == b"DIRC",
        on_branch=on_branch,
        head=_tip(place.git_dir, on_branch) if on_branch else at,
        tip=_tip(place.git_dir, place.ref),
        locks=tuple(_locks(place, now_s)),
        mid_operation=_open_operation(place.admin),
        ready=os.path.lexists(place.ready),
        last_here=newest_of_log(_tail(f"{place.admin}/logs/HEAD")),
        last_moved=newest_of_log(_tail(f"{place.git_dir}/logs/{place.ref}")),
    )


def changed_since(worktree: str, when_ns: int, limit: int = 20_000) -> bool | None:
    """Say whether a file or folder changed at ``when_ns`` (`stamp_ns`) or later; None: more than ``limit`` are there.

    Goes by the inode's change time, which no program can set back. ``.git`` doesn't count; no link is followed.
    """
    for seen, at_ns in enumerate(_changes(worktree)):
        if at_ns >= when_ns:
            return True
        if seen > limit:
            return None
    return False


def newest_change_ns(worktree: str, limit: int = 20_000) -> int | None:
    """Return when a file or folder changed last, as `changed_since` counts; None: more than ``limit`` are there."""
    newest = 0
    for seen, at_ns in enumerate(_changes(worktree)):
        newest = max(newest, at_ns)
        if seen > limit:
            return None
    return newest


def _changes(worktree: str) -> Iterator[int]:
    """Yield the change time of each folder and file, that of now for what goes while we look."""
    waiting = [worktree]
    while waiting:
        folder = waiting.pop()
        try:
            yield os.lstat(folder).st_ctime_ns
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name == ".git":
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        yield entry.stat(follow_symlinks=False).st_ctime_ns
        except OSError:
            yield time.time_ns()


def stamp_ns(place: Place) -> int:
    """Return the time of now as the worktree's filesystem counts it, which can differ from `time.time_ns` by a tick."""
    fd = os.open(f"{place.admin}/ralphd-stamp", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.utime(fd)
        return os.fstat(fd).st_ctime_ns
    finally:
        os.close(fd)


def prepare(place: Place) -> tuple[str, ...]:
    """Check out a tied worktree that never was, and copy the included files. Returns what a person should know.

    A worktree that has been checked out keeps every byte, but for included files that are missing in it.
    Raises GitError.
    """
    if not os.path.lexists(place.ready):
        for name in ("index", "index.lock"):  # of a first checkout that was cut off
            if os.path.lexists(f"{place.admin}/{name}"):
                os.unlink(f"{place.admin}/{name}")
        git = place.git()
        if place.sparse:
            git("sparse-checkout", "set", "--cone", "--stdin", stdin=os.fsencode("\n".join(place.sparse) + "\n"))
        git("reset", "--quiet", "--hard")
        os.close(os.open(place.ready, os.O_WRONLY | os.O_CREAT, 0o600))
    return tuple(note for name in place.include for note in _include(place, name))


def _names(folder: str) -> set[str] | None:
    try:
        return None if os.path.islink(folder) else set(os.listdir(folder))
    except OSError:
        return None


def _head(place: Place) -> tuple[str, str]:
    """Return the full ref that HEAD names and the commit it is detached at: one of them, or neither if it is broken."""
    text = _small(f"{place.admin}/HEAD").strip()
    if text.startswith("ref: refs/"):
        return text[len("ref: ") :], ""
    return "", text if is_object_id(text) else ""


def _is_tied(place: Place) -> bool:
    files = link_files(place.git_dir, place.worktree, place.branch)
    return all(_small(path).rstrip("\n") == text.rstrip("\n") for path, text in files[1:])


def _tip(git_dir: str, ref: str) -> str:
    """Return the commit a ref is at, or the empty string. Loose refs win over packed ones, as in git."""
    for _ in range(5):  # git's own depth of refs that name refs
        if ".." in ref or not ref.startswith("refs/"):
            return ""
        text = _small(f"{git_dir}/{ref}").strip()
        if not text:
            return _packed_tip(git_dir, ref)
        if is_object_id(text):
            return text
        ref = text.removeprefix("ref: ")
    return ""


def _packed_tip(git_dir: str, ref: str) -> str:
    packed = _bytes(f"{git_dir}/packed-refs", _PACKED_REFS_LIMIT_BYTES)
    end = packed.find(b" " + os.fsencode(ref) + b"\n")
    commit = packed[packed.rfind(b"\n", 0, max(end, 0)) + 1 : end].decode("ascii", "replace") if end > 0 else ""
    return commit if is_object_id(commit) else ""


def _locks(place: Place, now_s: float) -> Iterator[Lock]:
    paths = [(f"{place.admin}/{name}", OWN_LOCK_STALE_AFTER_S) for name in ("index.lock", "config.worktree.lock")]
    paths.append((f"{place.admin}/HEAD.lock", PASSING_LOCK_STALE_AFTER_S))
    paths.append((f"{place.git_dir}/{place.ref}.lock", PASSING_LOCK_STALE_AFTER_S))
    paths += [(f"{place.git_dir}/{name}", SHARED_LOCK_STALE_AFTER_S) for name in ("config.lock", "packed-refs.lock")]
    for path, stale_after_s in paths:
        try:
            facts = os.lstat(path)
        except OSError:
            continue
        age_s = max(0.0, now_s - facts.st_mtime)
        yield Lock(path=path, age_s=age_s, size=facts.st_size, stale_after_s=stale_after_s)


def _open_operation(admin: str) -> str:
    for mark, operation in MARKS_OF_OPEN_OPERATIONS:
        if os.path.lexists(f"{admin}/{mark}"):
            return operation
    return ""


def _include(place: Place, name: str) -> Iterator[str]:
    """Copy one ignored file or folder of the person's checkout, unless the worktree has it. Yields what went wrong."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or not parts or ".git" in parts:
        yield f"worktree.include: {name!r} is not a path inside the repository; left out"
        return
    source, target = "/".join([place.source, *parts]), "/".join([place.worktree, *parts])
    if os.path.lexists(target):
        return
    if not os.path.lexists(source):
        yield f"worktree.include: {name!r} is not in {place.source}; left out"
    elif not (_stays_inside(place.source, source) and _stays_inside(place.worktree, target)):
        yield f"worktree.include: {name!r} leads out of the repository through a link; left out"
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        yield from _copy(source, target, name)


def _stays_inside(root: str, path: str) -> bool:
    root = os.path.realpath(root)
    return os.path.realpath(path).startswith(f"{root}/")


def _copy(source: str, target: str, name: str) -> Iterator[str]:
    facts = os.lstat(source)
    if stat.S_ISDIR(facts.st_mode):
        os.mkdir(target)
        for below in sorted(os.listdir(source)):
            yield from _copy(f"{source}/{below}", f"{target}/{below}", f"{name}/{below}")
        os.chmod(target, stat.S_IMODE(facts.st_mode))
    elif stat.S_ISREG(facts.st_mode):
        _copy_file(source, target, stat.S_IMODE(facts.st_mode))
    else:
        yield f"worktree.include: {name!r} is neither a file nor a folder; left out"


def _copy_file(source: str, target: str, mode: int) -> None:
    from_fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        to_fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            while os.sendfile(to_fd, from_fd, None, 1 << 24):
                pass
            os.fchmod(to_fd, mode)
        finally:
            os.close(to_fd)
    finally:
        os.close(from_fd)


def _small(path: str) -> str:
    return os.fsdecode(_bytes(path, _SMALL_FILE_LIMIT_BYTES))


def _tail(path: str) -> bytes:
    return _bytes(path, _SMALL_FILE_LIMIT_BYTES, end=True)


def _bytes(path: str, limit: int, *, end: bool = False) -> bytes:
    """Read a plain file that an agent may have replaced: no link is followed, no pipe waited for, no flood taken in.

    What is longer than ``limit`` is read from its beginning, or to its ``end``.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        size = os.fstat(fd).st_size
        if end and size > limit:
            os.lseek(fd, size - limit, os.SEEK_SET)
        return os.read(fd, min(limit, size))
    except OSError:
        return b""
    finally:
        os.close(fd)
