"""How a note reaches the session that runs: on its stdin, or by ending it, to be taken up again with the note."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Tells
    from ralphd.pane.inbox import Inbox
    from ralphd.pane.session import Input


class Notes:
    """The notes that must not wait, seen from one process of an agent. What it can't be given stays where it is."""

    def __init__(self, inbox: Inbox, tells: Tells) -> None:
        self._inbox, self._tells = inbox, tells
        self._first = True
        self.waiting = False  # one is there that this process can be given only by taking its session up again

    def give(self, stdin: Input) -> tuple[str, ...]:
        """Tell a running agent what there is to tell; returns the names of the notes that it was given."""
        stdin.flush()
        if not self._inbox.has_news() and not self._first:
            return ()
        self._first = False
        notes = self._inbox.notes(now=True)
        given = tuple(note for note in notes if self._say(stdin, note[1]))
        self._inbox.use(given)
        self.waiting = self._tells.resume and len(given) < len(notes)
        return tuple(name for name, _ in given)

    def _say(self, stdin: Input, text: str) -> bool:
        return self._tells.input is not None and stdin.say(self._tells.input(text))
