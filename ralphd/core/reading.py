"""The fold of an agent's signals: what a whole stream said so far, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.core.signals import (
    Asked,
    Began,
    Called,
    Compacted,
    Failed,
    Requesting,
    Resulted,
    Retrying,
    Returned,
    Said,
    Signal,
    Streamed,
    Unread,
    Used,
)

OPEN_CALLS = 256  # an agent that opens more calls than this at once answers few of them
PLAIN_LINES = 8  # the last plain lines: an error of a CLI is among its last words


@dataclass
class Reading:
    """Grows signal by signal, about one process of an agent CLI.

    ``failed`` is the newest structured failure that no later success of the same run overtook, or an endless one;
    ``result`` the last final result, ``settled`` whether nothing was begun since. Token figures are None until the CLI
    tells one.
    """

    session: str = ""
    model: str = ""
    version: str = ""
    begun: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost_usd: float | None = None
    compactions: int = 0
    calls: int = 0
    running: dict[str, str] = field(default_factory=dict)  # id -> tool, of the calls that have not returned
    said: int = 0
    retries: int = 0
    retrying: Retrying | None = None  # the newest wait of the CLI's own
    result: Resulted | None = None
    settled: bool = False
    failed: Failed | None = None
    asked: str = ""
    plain: tuple[Unread, ...] = ()  # the last lines that were no events

    @property
    def answered(self) -> bool:
        """Whether a model said or did anything."""
        return bool(self.said or self.calls or (self.result is not None and self.result.ok))

    @property
    def open_calls(self) -> int:
        return len(self.running)

    def add(self, signal: Signal) -> None:
        """Take one signal in. The order is that of the stream."""
        match signal:
            case Began():
                self._begin(signal)
            case Used():
                self._use(signal)
            case Said() | Streamed() | Requesting() | Called():
                self._go_on(signal)
            case Returned():
                self.running.pop(signal.id, None)
            case Compacted():
                self.compactions += 1
            case Retrying():
                self.retries += signal.attempt > 0
                self.retrying = signal if signal.attempt > 0 else self.retrying
            case Failed():
                self._fail(signal)
            case Resulted():
                self._end(signal)
            case Asked():
                self.asked = signal.question
            case Unread():
                if signal.text:
                    self.plain = (*self.plain[1 - PLAIN_LINES :], signal)
            case _:
                pass  # a kind of signal that a newer adapter knows

    def _begin(self, signal: Began) -> None:
        self.begun += 1
        self.settled = False
        self.session = signal.session or self.session
        self.model = signal.model or self.model
        self.version = signal.version or self.version

    def _go_on(self, signal: Said | Streamed | Requesting | Called) -> None:
        """Note that the agent works: a piece of an answer shows that inference does too, a mere request doesn't."""
        self.settled = False
        if isinstance(signal, Requesting):
            return
        self._overtake()
        if isinstance(signal, Said):
            self.said += 1
        if isinstance(signal, Called):
            self.calls += 1
            self.running[signal.id] = signal.tool
            if len(self.running) > OPEN_CALLS:
                del self.running[next(iter(self.running))]

    def _end(self, signal: Resulted) -> None:
        self.result, self.settled = signal, True
        self.running.clear()
        if signal.ok:
            self._overtake()

    def _fail(self, signal: Failed) -> None:
        if self.failed is None or not self.failed.endless:
            self.failed = signal

    def _overtake(self) -> None:
        """Forget a trouble that is over. An endless one isn't: what follows it is more of the same."""
        self.asked = ""
        if self.failed is not None and not self.failed.endless:
            self.failed = None

    def _use(self, signal: Used) -> None:
        for name in ("tokens_in", "tokens_out", "cache_read", "cache_write"):
            told = getattr(signal, name)
            if told is not None:
                before = 0 if signal.total else getattr(self, name) or 0
                setattr(self, name, before + told)
        if signal.cost_usd is not None:
            self.cost_usd = signal.cost_usd + (0.0 if signal.total else self.cost_usd or 0.0)
