"""What exactly an agent reads on its stdin at the start of a session."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.pane.files import NotPlain, read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # hashlib would load OpenSSL: 3 MiB in every pane
except ImportError:
    from _sha256 import sha256  # type: ignore[import-not-found]  # its name before Python 3.12

PROMPT_LIMIT_BYTES = 16 << 20

GO_ON = b"The connection to the model was lost. Go on exactly where you were; nothing else has changed.\n"
GO_ON_WITH = b"This session was interrupted for a moment. Go on exactly where you were, with this in mind:\n"


class NoPrompt(Exception):
    """PROMPT.md can't be used; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The bytes for stdin, what identifies the operator's part of them, and the notes in them (name, text)."""

    text: bytes
    notes: tuple[tuple[str, str], ...] = ()
    sha256: str  # of PROMPT.md alone, hexadecimal
    size_bytes: int


def read(path: str) -> bytes:
    """Return PROMPT.md byte for byte. Raises NoPrompt."""
    try:
        return read_regular(path, PROMPT_LIMIT_BYTES)
    except NotPlain as error:
        raise NoPrompt(f"{path} {error.strerror}: put a plain file there and the loop goes on") from None
    except FileNotFoundError:
        raise NoPrompt(f"{path} is gone: put it back and the loop goes on") from None
    except OSError as error:
        raise NoPrompt(f"{path} can't be read ({error.strerror}): mend that and the loop goes on") from None


def compose(preamble: str, prompt: bytes, notes: tuple[tuple[str, str], ...]) -> Prompt:
    """Join the preamble, the exact bytes of PROMPT.md and the notes (name, text) for this session."""
    parts = [preamble.encode("utf-8", "replace").rstrip() + b"\n\n"] if preamble.strip() else []
    parts.append(prompt)
    return Prompt(
        text=with_notes(b"".join(parts), notes),
        notes=notes,
        sha256=sha256(prompt).hexdigest(),
        size_bytes=len(prompt),
    )


def with_notes(text: bytes, notes: Iterable[tuple[str, str]]) -> bytes:
    """Return what a session is told, with its notes behind."""
    parts = [text]
    for name, note in notes:
        head = f"\n\n--- A note for this session ({name}) ---\n"
        parts.append((head + note.rstrip() + "\n").encode("utf-8", "replace"))
    return b"".join(parts)
