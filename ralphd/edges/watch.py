"""Which of the few files that rarely change (configuration, prompts, hooks) just did."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.polling import PollingObserver

DEBOUNCE_S = 0.2  # editors write, rename and touch within a few ms; one save is one change
POLL_S = 2.0  # without inotify: how often the folders are listed
LOOK_ANYWAY_S = 30.0  # inotify loses folders that were replaced or didn't exist yet; a dozen stat calls don't hurt
_JOIN_S = 10.0


class _Observer(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def schedule(self, event_handler: FileSystemEventHandler, path: str, *, recursive: bool = False) -> object: ...


class Watch:
    """Calls ``on_change(path)`` from a thread of its own whenever a watched file or folder isn't what it was.

    ``paths`` are absolute; one may be missing, appear, vanish, or be replaced by a rename. Of a folder its direct
    entries count. ``on_change`` should only post to a queue. ``mode`` is ``inotify``, or ``polling`` and then ``why``.
    """

    def __init__(
        self,
        paths: Iterable[str],
        on_change: Callable[[str], None],
        *,
        observer: Callable[[], _Observer] = Observer,
        debounce_s: float = DEBOUNCE_S,
        look_anyway_s: float = LOOK_ANYWAY_S,
    ) -> None:
        self._stamps = {path: _stamp(path) for path in paths}
        self._on_change = on_change
        self._debounce_s = debounce_s
        self._look_anyway_s = look_anyway_s
        self._stirred = threading.Event()
        self._closing = threading.Event()
        self.mode, self.why = "inotify", ""
        try:
            self._observer = self._start(observer())
        except OSError as error:
            self.mode, self.why = "polling", f"no inotify: {error.strerror or error}; looking every {POLL_S:g} s"
            self._observer = self._start(PollingObserver(timeout=POLL_S))
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; when this returns no thread is left and ``on_change`` isn't called any more."""
        self._closing.set()
        self._stirred.set()
        _stop(self._observer)
        self._thread.join(_JOIN_S)

    def _start(self, observer: _Observer) -> _Observer:
        handler = _Stir(self._stirred)
        try:
            observer.start()
            for folder in sorted({folder for path in self._stamps for folder in _folders(path)}):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # looked at anyway, every so often
                    observer.schedule(handler, folder, recursive=False)
        except OSError:
            _stop(observer)
            raise
        return observer

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._stirred.wait(self._look_anyway_s):
                self._closing.wait(self._debounce_s)
            self._stirred.clear()
            self._compare()

    def _compare(self) -> None:
        for path, before in list(self._stamps.items()):
            now = _stamp(path)
            if now != before and not self._closing.is_set():
                self._stamps[path] = now
                self._on_change(path)


class _Stir(FileSystemEventHandler):
    """Wakes the comparing thread; which file it was about and what happened is told by looking."""

    def __init__(self, stirred: threading.Event) -> None:
        self._stirred = stirred

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type not in ("opened", "closed_no_write"):
            self._stirred.set()


def _stop(observer: _Observer) -> None:
    observer.stop()
    with contextlib.suppress(RuntimeError):  # one that never started can't be joined
        observer.join(_JOIN_S)


def _folders(path: str) -> list[str]:
    """List the folder a file is renamed into; for a folder also itself; for a link also where it leads."""
    real = os.path.realpath(path)
    folders = {os.path.dirname(path), os.path.dirname(real)}
    return sorted(folders | {real}) if os.path.isdir(real) else sorted(folders)


def _stamp(path: str) -> tuple[object, ...]:
    """Take what tells one state of a path from another; empty while it doesn't exist."""
    try:
        info = os.stat(path)
        names = os.listdir(path) if os.path.isdir(path) else []
    except OSError:
        return ()
    below = tuple((name, *_stamp_of_file(os.path.join(path, name))) for name in sorted(names))
    return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode, below)


def _stamp_of_file(path: str) -> tuple[int, ...]:
    try:
        info = os.lstat(path)
    except OSError:
        return ()
    return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode)
