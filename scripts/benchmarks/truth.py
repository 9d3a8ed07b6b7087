"""What a loop really made: every commit of it scored here, apart from whoever ran the loop."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

VERIFIER, FOUND = "score.py", "found.txt"


@dataclass(frozen=True, kw_only=True)
class Truth:
    """``points``: the most that any commit is worth. ``gained_at``: when that many were reached, epoch seconds."""

    points: int
    gained_at: float


def truth(git_dir: str, branches: Sequence[str], environ: Mapping[str, str], *, kept: str = "") -> Truth:
    """Score all commits of some branches; one that changes the verifier is worth nothing.

    ``kept``: a commit that somebody can take, though no branch may hold it any more.
    """
    git = Git(git_dir, environ)
    there = [name for name in branches if git.answer("rev-parse", "--verify", "-q", f"refs/heads/{name}")]
    there += [kept] if kept else []
    if not there:
        return Truth(points=0, gained_at=0.0)
    lines = git.answer("log", "--format=%H %ct", "--reverse", "--topo-order", *there).split("\n")
    commits = [(commit, float(at)) for commit, at in (line.split() for line in lines if line)]
    files = git.files([f"{commit}:{name}" for commit, _ in commits for name in (VERIFIER, FOUND)])
    best, gained_at = 0, commits[0][1]
    for number, (_, at) in enumerate(commits):
        points = score(files[2 * number + 1]) if files[2 * number] == files[0] else 0
        if points > best:
            best, gained_at = points, at
    return Truth(points=best, gained_at=gained_at)


def worth(git_dir: str, commit: str, base: str, environ: Mapping[str, str]) -> int:
    """Score one commit, by the verifier of ``base``."""
    files = Git(git_dir, environ).files([f"{base}:{VERIFIER}", f"{commit}:{VERIFIER}", f"{commit}:{FOUND}"])
    return score(files[2]) if files[0] == files[1] else 0


def score(found: bytes) -> int:
    """Count as score.py does."""
    lines = found.decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines):
        if not _fits(number, line.strip()):
            return number
    return len(lines)


def nonces() -> Iterator[int]:
    """Yield the lines that are to be found."""
    for number in itertools.count():
        yield next(n for n in itertools.count() if _fits(number, str(n)))


def _fits(number: int, line: str) -> bool:
    return hashlib.sha256(f"{number} {line}".encode()).hexdigest().startswith("00")


class Git:
    """Reads a repository."""

    def __init__(self, git_dir: str, environ: Mapping[str, str]) -> None:
        self._command, self._environ = ["git", f"--git-dir={git_dir}"], dict(environ)

    def answer(self, *args: str) -> str:
        return self._run(args, b"").decode("ascii", "replace")

    def files(self, names: Sequence[str]) -> list[bytes]:
        """Return the contents of ``commit:path`` names, empty for what is not there."""
        data, found = self._run(("cat-file", "--batch"), "".join(f"{name}\n" for name in names).encode()), []
        while data:
            head, _, data = data.partition(b"\n")
            if head.endswith(b" missing"):
                found.append(b"")
                continue
            size = int(head.split()[-1])
            found.append(data[:size])
            data = data[size + 1 :]
        return found

    def _run(self, args: Sequence[str], stdin: bytes) -> bytes:
        return subprocess.run(
            [*self._command, *args], env=self._environ, input=stdin, capture_output=True, check=False
        ).stdout
