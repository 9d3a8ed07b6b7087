"""The rows of ``ralphd top``: lines of plain text with one of them chosen; what didn't change is not drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

CHOSEN = Style(reverse=True)  # seen without colour too


class Rows(ScrollView, can_focus=True):
    """A tenth of the cost of a table of cells, and this one is looked at all night."""

    DEFAULT_CSS = "Rows { scrollbar-size: 0 1; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,ctrl+home", "move(-1000000)", show=False),
        Binding("end,ctrl+end", "move(1000000)", show=False),
    ]

    class Chosen(Message):
        """Another row is under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.cursor_row = 0

    def put(self, lines: Sequence[str]) -> None:
        """Show these lines; draw those that are new or different."""
        before, self.lines = self.lines, list(lines)
        if len(before) != len(lines):
            self.virtual_size = Size(self.size.width, len(lines))
            self.refresh()
        for number, (old, new) in enumerate(zip(before, self.lines, strict=False)):
            if old != new:
                self.refresh_line(number)

    def choose(self, row: int) -> None:
        """Put the cursor there, or as near as there are rows."""
        before, self.cursor_row = self.cursor_row, max(0, min(row, len(self.lines) - 1))
        self.refresh_line(before)
        self.refresh_line(self.cursor_row)
        self.scroll_to_region(Region(0, self.cursor_row, 1, 1), animate=False)
        self.post_message(self.Chosen())

    def render_line(self, y: int) -> Strip:
        row, width = self.scroll_offset.y + y, self.size.width
        if row >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        style = self.rich_style + CHOSEN if row == self.cursor_row else self.rich_style
        return Strip([Segment(self.lines[row], style)]).adjust_cell_length(width, style)

    def on_click(self, event: Click) -> None:
        self.choose(self.scroll_offset.y + event.y)

    def action_move(self, by: int) -> None:
        self.choose(self.cursor_row + by)

    def action_page(self, by: int) -> None:
        self.choose(self.cursor_row + by * max(1, self.size.height - 1))
