"""Who may write the journal: one thread behind a queue that commits whatever waits and never loses or reorders it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ralphd.core.errors import JournalError
from ralphd.core.events import Entry
from ralphd.core.outcomes import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ralphd.edges.journal import Journal

BATCH = 2000  # entries a commit: what one pass over 512 loops brings, four times over
RETRY_MIN_S = 0.1
RETRY_MAX_S = 5.0  # a full disk is tried again this often


@dataclass(frozen=True, kw_only=True)
class _Submission:
    entries: tuple[Entry, ...]
    then: Callable[[list[Entry]], None] | None


class JournalWriter:
    """``submit`` from any thread. ``then`` runs on the writer's thread, after the commit, and must be quick.

    ``trouble`` is the reason why nothing can be written at the moment, empty when all is well; ``trouble_kind`` the
    outcome that it is. ``spare`` gives up what is kept for a full disk, and tells whether there was any.
    """

    def __init__(self, journal: Journal, spare: Callable[[], bool] = lambda: False) -> None:
        self._spare = spare
        self.trouble = ""
        self.trouble_kind = Kind.JOURNAL_ERROR
        self._journal = journal
        self._waiting: list[_Submission] = []  # what is being committed stays at the front until it is
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def submit(self, entries: Sequence[Entry], then: Callable[[list[Entry]], None] | None = None) -> None:
        """Queue ``entries``; ``then`` gets those of them that were new, with ids (perhaps none)."""
        with self._changed:
            if self._closing:
                raise JournalError("the journal is closed: nothing can be written any more")
            self._waiting.append(_Submission(entries=tuple(entries), then=then))
            self._changed.notify_all()

    @property
    def backlog(self) -> int:
        """Return how many entries are not on disk yet."""
        with self._changed:
            return sum(len(submission.entries) for submission in self._waiting)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything that was submitted is on disk and told; False when time ran out first."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def close(self, timeout_s: float | None = 30.0) -> bool:
        """Flush, end the thread and close the journal; False when something could not be written in time."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        written = self.flush(timeout_s)
        if written:
            self._thread.join()
            self._journal.close()
        return written

    def _run(self) -> None:
        wait_s = RETRY_MIN_S
        while batch := self._next_batch():
            try:
                told = self._journal.append([entry for submission in batch for entry in submission.entries])
            except Exception as error:  # noqa: BLE001  # the loop boundary: nothing may be lost, whatever it is
                self.trouble_kind = _kind(error)
                if self.trouble_kind is Kind.DISK_FULL and self._spare():
                    continue
                self.trouble = str(error) if isinstance(error, JournalError) else repr(error)
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_MAX_S)
                continue
            self.trouble, wait_s = "", RETRY_MIN_S
            self._tell(batch, told)
            self._done(len(batch))

    def _next_batch(self) -> list[_Submission]:
        """Return the oldest submissions, up to BATCH entries or one submission; none when it is time to leave."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            batch: list[_Submission] = []
            size = 0
            for submission in self._waiting:
                if batch and size + len(submission.entries) > BATCH:
                    break
                batch.append(submission)
                size += len(submission.entries)
            return batch

    def _tell(self, batch: list[_Submission], stored: list[Entry]) -> None:
        """Hand each submission its own: ``stored`` is in the order submitted, with duplicates left out."""
        position = 0
        for submission in batch:
            own: list[Entry] = []
            for entry in submission.entries:
                if position < len(stored) and _same(stored[position], entry):
                    own.append(stored[position])
                    position += 1
            if submission.then is None:
                continue
            try:
                submission.then(own)
            except Exception as error:  # noqa: BLE001  # the caller's own fault must not stop the journal
                self.trouble = f"what follows a commit failed: {error!r}"

    def _done(self, count: int) -> None:
        with self._changed:
            del self._waiting[:count]
            self._changed.notify_all()


def _kind(error: Exception) -> Kind:
    return Kind(error.kind) if isinstance(error, JournalError) and error.kind else Kind.JOURNAL_ERROR


def _same(stored: Entry, entry: Entry) -> bool:
    """Tell whether ``stored`` came of ``entry``; bodies are compared by identity, which is quick and enough."""
    return stored.body is entry.body and (stored.night, stored.loop, stored.seq) == (entry.night, entry.loop, entry.seq)
