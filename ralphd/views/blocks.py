"""What a page is made of, before it is a terminal's or Markdown's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Heading:
    text: str


@dataclass(frozen=True, kw_only=True)
class Lead:
    """The first thing a person must read."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    text: str


@dataclass(frozen=True, kw_only=True)
class Items:
    items: tuple[Item, ...]


@dataclass(frozen=True, kw_only=True)
class Item:
    """``places`` are kept whole, so that they can be copied."""

    text: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Commands:
    """To be copied into a shell, character by character."""

    commands: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """``numbers``: the columns that are figures, and stand right. When it is tight, the first column is cut.

    ``last_wraps``: rather than that, what the last column has no room for stands below its row.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    last_wraps: bool = False


Block = Heading | Lead | Paragraph | Items | Commands | Table
