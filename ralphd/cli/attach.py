"""Look into a loop's pane: which there are, and the terminal handed over to tmux."""

from __future__ import annotations

import os

import click

from ralphd.cli import here, out
from ralphd.cli.nightfolders import loop_folders, newest_night, no_such_loop
from ralphd.cli.out import JSON
from ralphd.cli.place import Place
from ralphd.core.errors import EdgeError, NothingRunning, RalphdError, UsageError
from ralphd.edges.tmux import Tmux
from ralphd.edges.tmux_socket import socket_path
from ralphd.views.text import clean, number


@click.command()
@click.argument("loop", required=False, default="")
@JSON
def attach(loop: str, *, as_json: bool) -> None:
    """Look into a loop's pane, or choose one from a list.

    Detaching with Ctrl-b d changes nothing. Without a terminal the list is printed.
    """
    where = here.place()
    tmux = Tmux(socket_path(where.state, os.environ), environ=os.environ)
    windows = _windows(where, tmux)
    if loop and loop not in windows:
        raise NothingRunning(no_such_loop(loop, list(windows)))
    if as_json:
        out.data([{"loop": name, "about": about, "attached": attached} for name, (about, attached) in windows.items()])
    elif loop:
        _look_into(tmux, loop)
    elif out.is_terminal():
        _look_into(tmux, _choose(windows))
    else:
        _list(windows)


def _windows(where: Place, tmux: Tmux) -> dict[str, tuple[str, bool]]:
    """Return each loop with an open window: what it is doing, and whether somebody looks at it."""
    panes = tmux.panes()
    if not panes:
        raise NothingRunning(f"no panes to look into: no night runs in {where.state}; `ralphd start` begins one")
    loops = _told(where) or dict.fromkeys(loop_folders(newest_night(where)), "")
    open_now = {pane.window_name: pane.attached for pane in panes.values()}
    return {name: (about, open_now[name]) for name, about in loops.items() if name in open_now}


def _told(where: Place) -> dict[str, str]:
    """Ask the daemon what each loop does; without one the windows must speak for themselves."""
    try:
        (reply,) = here.request(where, {"verb": "status"})
    except (RalphdError, ValueError):
        return {}
    data = reply.get("data")
    loops = data.get("loops", []) if isinstance(data, dict) else []
    return {str(loop.get("id")): _about(loop) for loop in loops if isinstance(loop, dict)}


def _about(loop: dict[str, object]) -> str:
    score = loop.get("best_score")
    best = f", best {number(score)}" if isinstance(score, (int, float)) else ""
    note = f"; {loop['note']}" if loop.get("note") else ""
    return clean(f"{loop.get('state')}, session {loop.get('trajectory')}{best}{note}")


def _list(windows: dict[str, tuple[str, bool]]) -> None:
    wide = max(map(len, windows), default=0)
    for place, (name, (about, attached)) in enumerate(windows.items(), 1):
        out.say(f"{place:3}  {name.ljust(wide)}  {about}{'  (somebody is looking)' if attached else ''}")


def _choose(windows: dict[str, tuple[str, bool]]) -> str:
    _list(windows)
    names = list(windows)
    numbers = {str(place): name for place, name in enumerate(names, 1)}
    while True:
        answer = click.prompt("which one (a number or a name; q leaves)", default=names[0]).strip()
        if answer == "q":
            raise click.exceptions.Exit(0)
        if answer in numbers or answer in names:
            return numbers.get(answer, answer)
        out.say(f"there is no {answer}")


def _look_into(tmux: Tmux, loop: str) -> None:
    if not out.is_terminal():
        raise UsageError(f"attach needs a terminal; `ralphd logs {loop} -f` follows a loop without one")
    argv = tmux.attach_argv(loop)
    click.echo(f"looking into {loop}; Ctrl-b d leaves it as it is", err=True)
    try:
        os.execv(argv[0], argv)  # noqa: S606 - by argv, and the terminal becomes tmux's
    except OSError as error:
        raise EdgeError(f"{argv[0]} can't be run: {error.strerror}") from None
