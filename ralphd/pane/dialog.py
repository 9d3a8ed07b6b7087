"""Whether an agent fell silent because it asks a person something."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.lines import Lines
    from ralphd.core.reading import Reading

AFTER_S = 30.0  # of silence: who shows a dialog says nothing more, and a person should not wait long to know
ASKED_CHARS = 300
ERROR_LINES = 8
PENDING_BYTES = 8 << 10  # of a line without an end, as a question is


class Dialog:
    """The dialog that one process of an agent shows. It is looked for after ``after_s`` of silence, or AFTER_S."""

    def __init__(self, reading: Reading, lines: Lines, *, after_s: float) -> None:
        self._reading, self._lines = reading, lines
        self._after_s = min(AFTER_S, after_s)
        self._found = (-1.0, "")  # when it fell silent, and what it shows since then

    def shown(self, now: float, silent_since: float, *, calls: bool, stderr: bytes) -> str:
        """Return its words, "" for none. ``calls``: a tool call is open; ``stderr``: the end of what it wrote there."""
        reading = self._reading
        if reading.asked or calls or reading.running or reading.settled:
            return reading.asked[:ASKED_CHARS]
        if now - silent_since < self._after_s:
            return ""
        if self._found[0] != silent_since:
            self._found = (silent_since, self._question(stderr))
        return self._found[1]

    def _question(self, stderr: bytes) -> str:
        from ralphd.core.dialogs import question_in  # noqa: PLC0415  # most agents ask nobody

        pending = self._lines.begun(PENDING_BYTES).decode("utf-8", "replace")
        errors = stderr.decode("utf-8", "replace").splitlines()[-ERROR_LINES:]
        return question_in((*(line.text for line in self._reading.plain), pending, *errors))
