"""The files of a night repository that can make git run something: kept as they were, and put back when changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator

from ralphd.edges.checkout import configuration
from ralphd.edges.clone import files_below, replace_file
from ralphd.edges.git import Git

GUARDED = ("config", "config.worktree", "hooks", "info/attributes")
FILE_LIMIT_BYTES = 1 << 20
# Of a configuration that every loop shares: what an agent may set for itself without changing what git runs or means.
HARMLESS = (
    "user.",
    "branch.",
    "color.",
    "advice.",
    "init.",
    "pull.",
    "push.",
    "rerere.",
    "merge.conflictstyle",
    "column.",
)
# Of the configuration that is one loop's own: what `git sparse-checkout` writes there.
SPARSE = ("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse")
_AS_GIT_WRITES_IT = re.compile(rb"(\[(core|index)\]\n|\tsparse(Checkout(Cone)?)? = (true|false)\n)*")

Setting = tuple[str, str]


def keep(git_dir: str, at: str) -> str:
    """Copy the guarded files to the folder ``at``, 0700, for as long as the night lasts. Returns their `digest`."""
    os.mkdir(at, 0o700)
    for path in _files(git_dir):
        target = os.path.join(at, os.path.relpath(path, git_dir))
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        shutil.copyfile(path, target, follow_symlinks=False)
    return digest(at)


def digest(at: str) -> str:
    """Hash the names and contents of what `keep` left in ``at``; whoever changed a copy changes it."""
    hashed = hashlib.sha256()
    for path in sorted(_files(at)):
        content = content_of(path)
        hashed.update(os.fsencode(os.path.relpath(path, at)) + b"\0" + (b"?" if content is None else content) + b"\0")
    return hashed.hexdigest()


def put_back(git: Git, git_dir: str, at: str, aside: str) -> tuple[str, ...]:
    """Make the guarded files what they were, as the copies in ``at`` say; what was there moves into ``aside``.

    Returns their paths in the repository. Settings of a configuration that only say who an agent is stay. Does nothing
    where nothing was kept. Raises OSError.
    """
    if not os.path.isdir(at):
        return ()
    linked = tuple(name for name in ("info",) if _unlinked(git_dir, name, aside))
    kept = {os.path.relpath(path, at) for path in _files(at)}
    there = {os.path.relpath(path, git_dir) for path in _files(git_dir)}
    places = (git_dir, at, aside)
    return *linked, *(name for name in sorted(kept | there) if _put_back(git, places, name, kept=name in kept))


def own_spoilt(git: Git, git_dir: str, seen: dict[str, tuple[int, ...]]) -> Iterator[str]:
    """Name the loops' own configurations (``worktrees/<loop>/config.worktree``) that are more than sparse settings.

    ``seen`` remembers which were found harmless, so that git is asked about each once.
    """
    for name in _admins(git_dir):
        path = os.path.join(git_dir, name)
        with contextlib.suppress(FileNotFoundError):
            facts = os.lstat(path)
            stamp = (facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns)
            if seen.get(name) == stamp:
                continue
            if _sound(git, path):
                seen[name] = stamp
            else:
                yield name


def put_own_back(git: Git, git_dir: str, name: str, aside: str) -> None:
    """Leave of a loop's own configuration what concerns nobody else and breaks nothing. Raises OSError."""
    path = os.path.join(git_dir, name)
    settings = [pair for pair in _pairs(_settings(git, path)) if _own(pair[0]) and pair[0].count(".") == 1]
    checked_out = os.path.join(os.path.dirname(path), "info", "sparse-checkout")
    if os.path.isfile(checked_out) and not any(key in SPARSE for key, _ in settings):
        settings += [("core.sparseCheckout", "true"), ("core.sparseCheckoutCone", "true")]
    move_aside(path, name, aside)
    if settings:
        replace_file(path, os.fsdecode(configuration(settings)))


def _admins(git_dir: str) -> list[str]:
    try:
        loops = sorted(os.listdir(os.path.join(git_dir, "worktrees")))
    except OSError:
        return []
    return [f"worktrees/{loop}/config.worktree" for loop in loops]


def _sound(git: Git, path: str) -> bool:
    content = content_of(path)
    if content is not None and _AS_GIT_WRITES_IT.fullmatch(content):
        return True
    settings = _settings(git, path)
    return settings is not None and all(_own(key) for key, _ in _pairs(settings))


def _own(key: str) -> bool:
    return key.lower() in SPARSE or key.lower().startswith(HARMLESS)


def _pairs(settings: list[str] | None) -> list[Setting]:
    """Split what git lists; a key without a value is true."""
    parted = (setting.partition("\n") for setting in settings or ())
    return [(key, value if mark else "true") for key, mark, value in parted]


def _unlinked(git_dir: str, name: str, aside: str) -> bool:
    """Move a folder aside that was replaced by a link or a file: what is below it isn't the repository's."""
    path = os.path.join(git_dir, name)
    if not os.path.lexists(path) or (os.path.isdir(path) and not os.path.islink(path)):
        return False
    move_aside(path, name, aside)
    return True


def move_aside(path: str, name: str, aside: str) -> None:
    """Keep what lies at ``path`` in the folder ``aside``, if anything does. Raises OSError."""
    if os.path.lexists(path):
        os.makedirs(aside, mode=0o700, exist_ok=True)
        os.rename(path, os.path.join(aside, f"{name.replace('/', '-')}-{time.time_ns()}"))


def _put_back(git: Git, places: tuple[str, str, str], name: str, *, kept: bool) -> bool:
    git_dir, at, aside = places
    now, then = os.path.join(git_dir, name), os.path.join(at, name)
    if kept and content_of(now) == content_of(then) is not None:
        return False
    if name.startswith("config") and _harmless(git, then, now):
        return False
    move_aside(now, name, aside)
    if kept:
        os.makedirs(os.path.dirname(now), exist_ok=True)
        draft = f"{now}.ralphd-{os.getpid()}"
        shutil.copyfile(then, draft)
        shutil.copymode(then, draft)
        os.replace(draft, now)
    return True


def _harmless(git: Git, then: str, now: str) -> bool:
    """Tell whether two configurations differ only in what concerns nobody but the one who set it."""
    before, after = _settings(git, then), _settings(git, now)
    if after is None:
        return False
    changed = set(before or ()) ^ set(after)
    return all(setting.partition("\n")[0].lower().startswith(HARMLESS) for setting in changed)


def _settings(git: Git, path: str) -> list[str] | None:
    """Return key, newline, value of each setting, none for a file that isn't there; None where git can't read it."""
    if not os.path.lexists(path):
        return []
    if content_of(path) is None:
        return None
    status, out, _ = git.run("config", "--file", path, "--no-includes", "--list", "--null")
    return None if status else [os.fsdecode(setting) for setting in out.split(b"\0") if setting]


def _files(root: str) -> list[str]:
    return [file for name in GUARDED for file in files_below(os.path.join(root, name))]


def content_of(path: str) -> bytes | None:
    """Read a small plain file that somebody hostile may have replaced: no link is followed, no pipe waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(fd, FILE_LIMIT_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
