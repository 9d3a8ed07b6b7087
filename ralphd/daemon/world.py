"""Everything a night needs from outside, gathered once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ralphd import ports
from ralphd.core.config import Config
from ralphd.core.exchange import Assignment
from ralphd.core.records import Usage
from ralphd.core.state import LoopState, NightState

Assign = Callable[[Config, NightState, LoopState, int, str], tuple[Assignment, str]]


@dataclass(kw_only=True)
class World:
    """The ports, and what only the wiring knows.

    ``assignment(config, state, loop, generation, reset_to)`` returns a loop's assignment and its preamble's text;
    ``runner(folder, late_s)`` the argv of a loop's runner, its first session so many seconds late;
    ``template(name)`` a note's text with its ``{slots}``.
    ``frame`` writes down anew, beside the journal, which loops the night has; ``free_disk`` removes what ralphd can do
    without and returns how many bytes that gave. Both are called in the slow pool and may raise OSError.
    """

    clock: ports.Clock
    journal: ports.Journal
    panes: ports.Panes
    repositories: ports.Repositories
    folders: ports.Folders
    judge: ports.Judge
    host: ports.Host
    config: Config
    assignment: Assign
    runner: Callable[[str, float], tuple[str, ...]]
    template: Callable[[str], str]
    log: Any  # cli/daemonlog.py: info, warning, error, exception, each with an event and facts by name
    notifier: ports.Notifier | None = None  # None: nobody is configured to be told
    hide: Callable[[str], str] = str  # takes secrets out of what leaves the house
    frame: Callable[[], None] = lambda: None
    free_disk: Callable[[], int] = lambda: 0
    price: Callable[[Usage], float | None] = lambda _usage: None  # dollars, where the CLI tells none
