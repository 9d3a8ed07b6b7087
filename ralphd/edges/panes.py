"""The loops' windows: one each in ralphd's own tmux server, beside a home window that follows the daemon's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ralphd.edges.processes import identity
from ralphd.edges.tmux import Tmux
from ralphd.ports import PaneSeen


class TmuxPanes:
    """The working default of ports.Panes. ``home`` is the argv of the window that keeps the session alive."""

    def __init__(self, tmux: Tmux, home: Sequence[str]) -> None:
        self._tmux = tmux
        self._home = home

    def open_windows(self, windows: Sequence[tuple[str, tuple[str, ...]]]) -> Mapping[str, str]:
        return self._tmux.open_windows(windows, home=self._home)

    def panes(self) -> Mapping[str, PaneSeen]:
        return {
            pane.pane_id: PaneSeen(pane=pane.pane_id, window=pane.window_name, pid=pane.pid, attached=pane.attached)
            for pane in self._tmux.panes().values()
        }

    def server(self) -> str:
        pid = self._tmux.server_pid()
        who = identity(pid) if pid is not None else None
        return f"{who.pid}:{who.start_ticks}" if who is not None else ""

    def kill_pane(self, pane: str) -> None:
        self._tmux.kill_pane(pane)

    def kill_server(self) -> None:
        self._tmux.kill_server()
