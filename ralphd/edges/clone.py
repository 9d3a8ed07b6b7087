"""How a bare clone comes about that shares its objects with a repository by hard links and nothing else with it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

from ralphd.core.errors import GitError, UsageError
from ralphd.edges.checkout import Checkout, configuration
from ralphd.edges.git import Git


def make_bare(git_dir: str, object_format: str, head: str, identity: list[tuple[str, str]]) -> None:
    for folder in ("objects/pack", "objects/info", "refs/heads", "refs/tags", "hooks", "info", "worktrees"):
        os.makedirs(os.path.join(git_dir, folder), 0o700)
    replace_file(os.path.join(git_dir, "HEAD"), head + "\n")
    write_settings(git_dir, object_format, identity)


def write_settings(folder: str, object_format: str, identity: list[tuple[str, str]]) -> None:
    """Write into ``folder`` the two configuration files that a night repository has."""
    settings = [
        ("core.repositoryformatversion", "1"),
        ("core.logAllRefUpdates", "true"),  # a bare repository keeps no reflog by itself
        ("extensions.worktreeConfig", "true"),  # so that a sparse loop need not change what all share
        ("extensions.preciousObjects", "true"),  # a loop's `gc --prune=now` deletes what another is just committing
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
        ("commit.gpgSign", "false"),  # nobody is there to type a passphrase
        ("tag.gpgSign", "false"),
        *([("extensions.objectFormat", object_format)] if object_format != "sha1" else []),
        *identity,
    ]
    replace_file(os.path.join(folder, "config"), os.fsdecode(configuration(settings)))
    # With worktreeConfig on, `bare` in the common file would make every worktree bare (git-worktree(1)).
    replace_file(os.path.join(folder, "config.worktree"), "[core]\n\tbare = true\n")


def identity(source: Checkout) -> list[tuple[str, str]]:
    """Return who commits: the person, as their configuration names them, since an agent without a name can't commit."""
    theirs = Git(git_dir=source.git_dir, user_config=True)
    name = theirs.answer("config", "--get", "user.name") or "ralphd"
    email = theirs.answer("config", "--get", "user.email") or "ralphd@localhost"
    return [("user.name", name), ("user.email", email)]


def link_objects(source: str, target: str) -> None:
    """Hard-link all objects. Where a repack moves them under our feet, go over them again."""
    for _ in range(5):
        if all(_link(path, os.path.join(target, os.path.relpath(path, source))) for path in files_below(source)):
            break
    alternates = os.path.join(source, "info", "alternates")
    if os.path.exists(alternates):
        with open(alternates, encoding="utf-8", errors="surrogateescape") as file:
            stores = [line for line in file.read().splitlines() if line and not line.startswith("#")]
        lines = [
            line if line.startswith(("/", '"')) else os.path.realpath(os.path.join(source, line)) for line in stores
        ]
        replace_file(os.path.join(target, "info", "alternates"), "".join(f"{line}\n" for line in lines))


def _link(source: str, target: str) -> bool:
    name = os.path.basename(source)
    if name.startswith("tmp_") or name.endswith(".lock") or os.path.basename(os.path.dirname(source)) == "info":
        return True
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        return True
    except FileNotFoundError:
        return False
    except OSError:  # another filesystem, another owner, too many links
        with suppress(FileNotFoundError):
            shutil.copy2(source, target)
            return True
        return False
    return True


def require_whole(git: Git, source: Checkout, base: str) -> None:
    status, _, _ = git.run("cat-file", "-e", f"{base}^{{tree}}")
    if status:
        raise GitError(f"{source.toplevel}: the files of commit {base} could not be read; try `git fsck` there")
    if source.partial:
        listed = git("rev-list", "--objects", "--missing=print", "-1", base)
        missing = sum(line.startswith(b"?") for line in listed.splitlines())
        if missing:
            raise UsageError(
                f"{source.toplevel} is a partial clone and {missing} files of {base[:12]} are not in it: "
                f"`git fetch --refetch --no-filter` there first"
            )


def replace_file(path: str, text: str) -> None:
    with open(f"{path}.new", "wb") as file:
        file.write(os.fsencode(text))
    os.replace(f"{path}.new", path)


def files_below(path: str) -> Iterator[str]:
    if os.path.islink(path) or not os.path.isdir(path):
        yield from [path] if os.path.lexists(path) else []
        return
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in sorted(names))
