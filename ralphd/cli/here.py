"""Where a command runs: the state folder of this user and this environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ralphd.cli.place import Place
from ralphd.core.errors import ConfigError, EdgeError, NothingRunning, RalphdError
from ralphd.edges.control import ask
from ralphd.edges.ownership import open_state, state_folder

PATIENCE_S = 15.0  # a daemon of 512 loops answers in a fraction of a second; an end of the night takes its time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.config import Config


def place(*, make: bool = False) -> Place:
    """Return the state folder; made only by what writes to it. Raises NothingRunning where there is none."""
    path = state_folder(os.environ)
    if not make and not os.path.isdir(path):
        raise NothingRunning(f"no night has been yet in {path}; `ralphd start` begins one, `ralphd demo` shows one")
    return Place(state=open_state(path))


def config() -> Config | None:
    """Return the configuration of the folder we are in, for where the journal is; None: there is none to be read."""
    from ralphd.cli import settings  # noqa: PLC0415  # status must not wait for it

    try:
        return settings.found_from(os.getcwd()).read()
    except (ConfigError, OSError):  # who only looks must not be stopped by a mistake in it
        return None


class RefusedError(RalphdError):
    """The daemon refused; the code is its own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


def request(where: Place, data: dict[str, object]) -> Iterator[dict[str, object]]:
    """Ask the daemon; yields its replies. Raises RefusedError for a refusal, NothingRunning without a daemon."""
    answered = False
    for reply in _ask(where, data):
        answered = answered or "code" in reply
        if reply.get("ok") is not True:
            code = reply.get("code")
            raise RefusedError(str(reply.get("error", "refused")), code if isinstance(code, int) else 1)
        yield reply
    if not answered:
        raise NothingRunning("the daemon went away before it answered; `ralphd start` takes its night up again")


def _ask(where: Place, data: dict[str, object]) -> Iterator[dict[str, object]]:
    try:
        yield from ask(Path(where.state), data, None if data.get("verb") == "stop" else PATIENCE_S)
    except NothingRunning:
        from ralphd.cli.absence import why_nobody_answers  # noqa: PLC0415  # needs the journal, and only then

        raise NothingRunning(why_nobody_answers(where, config())) from None
    except TimeoutError:
        raise EdgeError(f"the daemon doesn't answer; is it stopped, or the disk stuck? {where.log} may tell") from None
    except (ValueError, OSError) as error:
        raise NothingRunning(f"the daemon's answer broke off ({error}); ask again") from None
