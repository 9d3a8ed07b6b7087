"""The git folder that ralphd reads a night repository by: it holds what was put there, whatever was planted since.

The plumbing that the daemon uses runs nothing even if a loop's process wrote a configuration there. A merge would.
"""

from __future__ import annotations

import os

from ralphd.core.worktrees import is_object_id
from ralphd.edges.checkout import LINKED, configuration
from ralphd.edges.clone import replace_file
from ralphd.edges.guarded_files import content_of, move_aside

_VERSION = ("core.repositoryformatversion", "1")
_TEXTS = {
    40: os.fsdecode(configuration([_VERSION])),
    64: os.fsdecode(configuration([_VERSION, ("extensions.objectformat", "sha256")])),
}
_OURS = frozenset({*LINKED, "HEAD", "config", "info"})


def put_back(at: str, git_dir: str, aside: str) -> tuple[str, ...]:
    """Make the folder ``at`` a view of ``git_dir`` and nothing else again; returns what wasn't so, by name.

    What was there moves into ``aside``. Raises OSError.
    """
    if not os.path.isdir(git_dir):
        return ()  # there is nothing to view
    if os.path.islink(at) or not os.path.isdir(at):
        move_aside(at, os.path.basename(at), aside)
        os.mkdir(at, 0o700)
    spoilt = [*_strange(at), *_wrong_links(at, git_dir)]
    for name in spoilt:
        move_aside(os.path.join(at, name), f"{os.path.basename(at)}-{name}", aside)
    os.makedirs(os.path.join(at, "info"), 0o700, exist_ok=True)
    for name in _missing_links(at, git_dir):  # git itself removes `shallow` when it has no use for it any more
        os.symlink(os.path.relpath(os.path.join(git_dir, name), at), os.path.join(at, name))
    return (*spoilt, *_written(at, git_dir, aside))


def _strange(at: str) -> list[str]:
    """Name what nobody but a loop's process can have put there. Git's own locks come and go."""
    there = [name for name in os.listdir(at) if name not in _OURS and not name.endswith(".lock")]
    info = os.path.join(at, "info")
    if os.path.islink(info) or (os.path.lexists(info) and not os.path.isdir(info)):
        return sorted([*there, "info"])
    inside = os.listdir(info) if os.path.isdir(info) else []
    return sorted([*there, *(f"info/{name}" for name in inside if name != "exclude")])


def _wrong_links(at: str, git_dir: str) -> list[str]:
    there = [name for name in LINKED if os.path.lexists(os.path.join(at, name))]
    return [name for name in there if _target(at, name) != os.path.relpath(os.path.join(git_dir, name), at)]


def _missing_links(at: str, git_dir: str) -> list[str]:
    wanted = [name for name in LINKED if name in ("packed-refs", "shallow") or os.path.lexists(f"{git_dir}/{name}")]
    return [name for name in wanted if not os.path.lexists(os.path.join(at, name))]


def _target(at: str, name: str) -> str | None:
    try:
        return os.readlink(os.path.join(at, name))
    except OSError:
        return None


def _written(at: str, git_dir: str, aside: str) -> list[str]:
    """Write HEAD and the configuration anew where they say something else than ours would."""
    names = []
    head = _head(at)
    if not head:
        head = _head(git_dir) or "ref: refs/ralphd/base"
        names.append("HEAD")
        _replace(at, "HEAD", f"{head}\n", aside)
    if content_of(os.path.join(at, "config")) not in [text.encode() for text in _TEXTS.values()]:
        names.append("config")
        _replace(at, "config", _TEXTS[64 if len(head) == 64 else 40], aside)
    return names


def _head(git_dir: str) -> str:
    head = os.fsdecode(content_of(os.path.join(git_dir, "HEAD")) or b"").removesuffix("\n")
    return head if is_object_id(head) else ""


def _replace(at: str, name: str, text: str, aside: str) -> None:
    move_aside(os.path.join(at, name), f"{os.path.basename(at)}-{name}", aside)
    replace_file(os.path.join(at, name), text)
