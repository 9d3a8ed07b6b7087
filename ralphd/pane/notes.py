"""How a note reaches the session that runs: on its stdin, or by ending it, to be taken up again with the note."""

from __future__ import annotations

from ralphd.core.signals import Called, Requesting, Resulted, Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Tells
    from ralphd.core.signals import Signal
    from ralphd.pane.inbox import Inbox
    from ralphd.pane.stdin import Input

    Note = tuple[str, str]


class Notes:
    """The notes there are, seen from one process of an agent. What it can't be given stays where it is."""

    def __init__(self, inbox: Inbox, tells: Tells) -> None:
        self._inbox, self._tells = inbox, tells
        self._first = True
        self._unread: tuple[Note, ...] = ()  # given, and not in a request that was answered
        self._asked = False
        self.waiting = False  # one that must not wait can reach this session only by taking it up again

    def give(self, stdin: Input) -> tuple[str, ...]:
        """Tell a running agent what there is to tell; returns the names of the notes that it was given."""
        stdin.flush()
        if not self._inbox.has_news() and not self._first:
            return ()
        self._first = False
        given = tuple(note for note in self._inbox.notes() if self._say(stdin, note[1]))
        self._inbox.use(given)
        if given:
            self._unread, self._asked = (*self._unread, *given), False
        self.waiting = self._tells.resume and bool(self._inbox.notes(now=True))
        return tuple(name for name, _ in given)

    def heard(self, told: Signal) -> None:
        """Take one signal: what is asked after a note and answered was asked with it, and a result leaves nothing."""
        if isinstance(told, Requesting):
            self._asked = True
        elif isinstance(told, Resulted) or (self._asked and isinstance(told, (Said, Called))):
            self._unread = ()

    def end(self) -> None:
        """Keep what it was given and never read for whoever comes next."""
        self._inbox.take_back(self._unread)

    def _say(self, stdin: Input, text: str) -> bool:
        return self._tells.input is not None and stdin.say(self._tells.input(text))
