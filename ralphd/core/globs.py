"""Which paths of a repository patterns such as ``tests/**`` name.

A pattern without a slash names files and folders of that name anywhere; one with a slash starts at the root of the
repository. ``*``, ``?`` and ``[…]`` stay within one name, ``**`` spans any number of them. A folder names all in it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def matches(path: str, globs: Iterable[str]) -> bool:
    """Say whether ``path`` (relative, ``/`` between names) is named by any of ``globs``."""
    names = path.split("/")
    return any(_names(parts, names) for parts in map(_parts, globs) if parts)


def _parts(glob: str) -> list[str]:
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    anchored = "/" in glob.rstrip("/")
    return parts if anchored or not parts else ["**", *parts]


def _names(parts: list[str], names: list[str]) -> bool:
    """Walk both lists from the left, keeping every place in the pattern that the names so far could have led to."""
    places = _past_stars(parts, {0})
    for name in names:
        if len(parts) in places:  # a folder above is named
            return True
        stay = {place for place in places if parts[place] == "**"}
        step = {place + 1 for place in places - stay if fnmatchcase(name, parts[place])}
        places = _past_stars(parts, stay | step)
    return len(parts) in places


def _past_stars(parts: list[str], places: set[int]) -> set[int]:
    reached = set(places)
    for place in sorted(places):
        at = place
        while at < len(parts) and parts[at] == "**":
            at += 1
            reached.add(at)
    return reached
