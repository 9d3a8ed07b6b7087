"""The verb that keeps the night on the screen: it looks once a second, and steers what it shows."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import click

from ralphd.cli import here, out, steer
from ralphd.core.errors import NothingRunning, RalphdError, UsageError

DONE = {
    "pause": "held at the end of the session",
    "resume": "going on",
    "restart": "restarting",
    "repair": "a note is left for",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.cli.logtail import Tail


@click.command()
def top() -> None:
    """Watch the running night, and steer it with keys.

    The loops that need a person stand first. The keys at the bottom act on the loop under the cursor.
    """
    if not out.is_terminal():
        raise UsageError("top needs a terminal; `ralphd status` says the same once")
    from ralphd.views.top_app import Top  # noqa: PLC0415  # half a second of libraries that no other verb needs

    Top(source()).run()


def source() -> Any:
    """Return what the screen asks: the daemon of this user's state folder, the logs of its newest night, its tmux."""
    from ralphd.views.top_app import Source  # noqa: PLC0415  # as above

    return Source(status=_status, log=_Logs().newest, act=_act, attach=_attach)


def _status() -> dict[str, Any]:
    (reply,) = here.request(here.place(), {"verb": "status"})
    data = reply.get("data")
    if not isinstance(data, dict):
        raise RalphdError("the daemon answered something else")
    return data


class _Logs:
    """The tail of the loop that was asked for last; another loop or night begins a new one."""

    def __init__(self) -> None:
        self._folder = ""
        self._tail: Tail | None = None

    def newest(self, loop: str) -> list[str]:
        from ralphd.cli.logtail import Tail  # noqa: PLC0415  # it loads every agent's reader
        from ralphd.cli.nightfolders import loop_folder, newest_night  # noqa: PLC0415  # as above

        folder = loop_folder(newest_night(here.place()), loop)
        if self._tail is None or folder != self._folder:
            self._folder, self._tail = folder, Tail(folder)
        return self._tail.look()


def _act(request: dict[str, object]) -> str:
    said = []
    for reply in here.request(here.place(), request):
        data = reply.get("data")
        if isinstance(data, dict):
            verb = str(request["verb"])
            loops = ", ".join(map(str, data.get("loops", [])))
            said.append(steer.scaled(data) if verb == "scale" else f"{DONE[verb]}: {loops}")
    return "; ".join(said)


def _attach(loop: str) -> None:
    """Hand the terminal over to tmux until the person detaches."""
    from ralphd.edges.tmux import Tmux  # noqa: PLC0415  # looking alone must not wait for it
    from ralphd.edges.tmux_socket import socket_path  # noqa: PLC0415  # as above

    tmux = Tmux(socket_path(here.place().state, os.environ), environ=os.environ)
    if not tmux.panes():
        raise NothingRunning("no panes to look into: no night runs")
    click.echo(f"looking into {loop}; Ctrl-b d comes back", err=True)
    subprocess.run(tmux.attach_argv(loop), check=False)
