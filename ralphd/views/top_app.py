"""The terminal program behind `ralphd top`: it asks off its own thread, writes only what changed, and never stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from ralphd.core.errors import RalphdError
from ralphd.views.status import HEADER, note
from ralphd.views.text import clean, fit
from ralphd.views.top import Shown, column_widths, fitted, line, place_of, shown
from ralphd.views.top_rows import Rows

POLL_S = 1.0
LOG_LINES = 200  # kept of the chosen loop; the panel shows its end


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where facts come from and requests go; each may wait, and raises RalphdError with words for a person.

    ``log``: the newest sentences of a loop. ``act``: sends a request, returns what was done. ``attach``: hands the
    terminal over and returns when the person comes back.
    """

    status: Callable[[], dict[str, Any]]
    log: Callable[[str], list[str]]
    act: Callable[[dict[str, object]], str]
    attach: Callable[[str], None]


class Told(Message):
    """Something new lies with the watcher."""


class Done(Message):
    """What came of a request."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words


class Watcher:
    """Asks once a second on a thread of its own; only the newest answer is kept, however long nobody fetches it."""

    def __init__(self, source: Source, tell: Callable[[], object]) -> None:
        self._source, self._tell = source, tell
        self.chosen = ""
        self.status: dict[str, Any] | None = None
        self.trouble = ""
        self.log: tuple[str, list[str]] = ("", [])
        self.fetched = threading.Event()
        self.fetched.set()
        self._wake = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._watch, name="top", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        self._wake.set()

    def close(self) -> None:
        self._over = True
        self._wake.set()

    def _watch(self) -> None:
        while not self._over:
            self._look()
            if self.fetched.is_set() and not self._over:
                self.fetched.clear()
                self._tell()
            self._wake.wait(POLL_S)
            self._wake.clear()

    def _look(self) -> None:
        try:
            self.status, self.trouble = self._source.status(), ""
        except RalphdError as error:
            self.trouble = str(error)
        except Exception as error:  # noqa: BLE001 -- the loop boundary: whatever is wrong is shown, and asked again
            self.trouble = f"{type(error).__name__}: {error}"
        name = self.chosen
        try:
            self.log = (name, self._source.log(name)[-LOG_LINES:] if name else [])
        except (RalphdError, OSError) as error:
            self.log = (name, [str(error)])


class Ask(ModalScreen[str]):
    """A question with one line for the answer; Escape answers nothing."""

    CSS = """
    Ask { align: center bottom; }
    Ask > Static, Ask > Input { width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave it")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Static(plain(self._question), id="question")
        yield Input(id="answer")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        self.dismiss("")


class Top(App[None]):
    """The night, live. The loop under the cursor is the one that keys act on."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #night { height: auto; max-height: 9; }
    #said { height: auto; max-height: 3; text-style: bold; }
    #head { height: 1; text-style: bold underline; }
    Rows { height: 2fr; min-height: 3; }
    #about { height: 1; text-style: bold; }
    #log { height: 1fr; min-height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "attach", "attach"),
        Binding("p", "steer('pause')", "pause"),
        Binding("r", "steer('resume')", "resume"),
        Binding("x", "restart", "restart"),
        Binding("n", "repair", "repair"),
        Binding("s", "scale", "scale"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, source: Source) -> None:
        super().__init__(ansi_color=True)
        self._source = source
        self._shown = Shown()
        self._status: dict[str, Any] = {}
        self._texts: dict[str, str] = {}
        self.watcher = Watcher(source, lambda: self.post_message(Told()))

    def compose(self) -> ComposeResult:
        yield Static(id="night", markup=False)
        yield Static(id="said", markup=False)
        yield Static(id="head", markup=False)
        yield Rows()
        yield Static(id="about", markup=False)
        yield Static(id="log", markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.theme = "ansi-dark"  # the terminal's own colours: light or dark, and none where there are none
        self._put("night", "Asking the daemon ...")
        self.query_one("#said").display = False
        self.rows.focus()
        self.watcher.start()

    def on_unmount(self) -> None:
        self.watcher.close()

    @property
    def rows(self) -> Rows:
        return self.query_one(Rows)

    @property
    def chosen(self) -> str:
        """Name the loop under the cursor; empty: there is none."""
        row = self.rows.cursor_row
        return self._shown.names[row] if 0 <= row < len(self._shown.names) else ""

    # ------------------------------------------------------------------ what is shown

    def on_told(self) -> None:
        watcher = self.watcher
        watcher.fetched.set()
        if watcher.status is not None:
            self._show(watcher.status)
        elif not watcher.trouble:
            return
        lines = self._shown.lines
        if watcher.trouble:
            words = f"No answer: {clean(watcher.trouble)}. Asking again every second."
            lines = (words, *(("What follows is the last that was told.", *lines) if lines else ()))
        self._put("night", "\n".join(lines))
        self._show_log()

    def _show(self, status: dict[str, Any]) -> None:
        chosen, row, wide = self.chosen, self.rows.cursor_row, self.size.width
        before, self._status = self._shown, status
        self._shown = now = shown(status, wide)
        self._put("head", line(fitted(HEADER, column_widths(wide))))
        self.rows.put([line(cells) for cells in now.rows])
        if now.rows and before.names != now.names:
            self.rows.choose(place_of(chosen, now, row))

    def on_resize(self) -> None:
        self.watcher.hurry()

    def on_rows_chosen(self) -> None:
        if self.chosen != self.watcher.chosen:
            self.watcher.chosen = self.chosen
            self.watcher.hurry()
            self._show_log()

    def _show_log(self) -> None:
        self.watcher.chosen = chosen = self.chosen
        name, lines = self.watcher.log
        rows = self._status.get("loops") or ()
        told = next((note(row) for row in rows if isinstance(row, dict) and row.get("id") == chosen), "")
        about = f"{chosen}: {told}" if told else chosen
        self._put("about", fit(clean(about), self.size.width))
        room = self.query_one("#log").size.height
        newest = lines[-room:] if room and name == chosen else []
        self._put("log", "\n".join(fit(clean(line), self.size.width) for line in newest))

    def _put(self, where: str, text: str) -> None:
        """Write a panel anew if it says something else now."""
        if self._texts.get(where) != text:
            self._texts[where] = text
            panel = self.query_one(f"#{where}", Static)
            panel.update(plain(text))
            panel.display = bool(text) or where != "said"  # the others keep their place

    # ------------------------------------------------------------------ what keys do

    def action_steer(self, verb: str) -> None:
        if self.chosen:
            self._send({"verb": verb, "loops": [self.chosen]})

    def action_restart(self) -> None:
        name = self.chosen

        def answered(answer: str | None) -> None:
            if answer in {"y", "yes"}:
                self._send({"verb": "restart", "loops": [name]})

        if name:
            self.push_screen(
                Ask(f"Restart {name}? Its running session is ended. y and Enter; Escape leaves it."), answered
            )

    def action_repair(self) -> None:
        name = self.chosen

        def answered(note: str | None) -> None:
            if note:
                self._send({"verb": "repair", "loops": [name], "note": note})

        if name:
            self.push_screen(Ask(f"A note for {name}, which it reads without a restart. Escape leaves it."), answered)

    def action_scale(self) -> None:
        def answered(width: str | None) -> None:
            if width and width.isascii() and width.isdigit():
                self._send({"verb": "scale", "width": int(width[:6])})
            elif width:
                self._put("said", f"{clean(width)} is not a number of loops")

        self.push_screen(Ask("How many loops at once from now on? Escape leaves it."), answered)

    def action_attach(self) -> None:
        name = self.chosen
        if not name:
            return
        try:
            with self.suspend():
                self._source.attach(name)
        except SuspendNotSupported:
            self._put("said", "this terminal can't be handed over")
        except RalphdError as error:
            self._put("said", clean(str(error)))
        self.refresh()

    def _send(self, request: dict[str, object]) -> None:
        """Send a request on a thread of its own: a daemon that is busy must not hold up the screen."""
        self._put("said", f"asked to {request['verb']} ...")
        threading.Thread(target=self._act, args=(request,), name="act", daemon=True).start()

    def _act(self, request: dict[str, object]) -> None:
        try:
            words = self._source.act(request)
        except RalphdError as error:
            words = str(error)
        except Exception as error:  # noqa: BLE001 -- the loop boundary of this thread; the person reads it
            words = f"{type(error).__name__}: {error}"
        self.post_message(Done(clean(words)))
        self.watcher.hurry()

    def on_done(self, event: Done) -> None:
        self._put("said", event.words)


def plain(text: str) -> Text:
    """Return text that is nothing but text: no markup in it is followed, no line is broken."""
    return Text(text, no_wrap=False, end="")
