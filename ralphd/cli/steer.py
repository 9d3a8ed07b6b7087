"""The verbs that steer running loops: each is a request to the daemon, vetted there."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from typing import Any

import click

from ralphd.cli import here, out
from ralphd.cli.out import JSON
from ralphd.cli.place import Place
from ralphd.core.errors import NothingRunning, RalphdError
from ralphd.edges import ownership

GOING_S = 30.0  # after its good-bye a daemon closes its files; a slow disk takes seconds for that
ASK_AGAIN_S = 0.1


def _steer(verb: str, loops: tuple[str, ...], done: str, *, as_json: bool, **more: object) -> None:
    for reply in here.request(here.place(), {"verb": verb, "loops": list(loops), **more}):
        data = reply.get("data")
        if isinstance(data, dict):
            out.data(data) if as_json else out.say(f"{done}: {', '.join(str(loop) for loop in data.get('loops', []))}")


@click.command()
@click.argument("loops", nargs=-1)
@click.option("--now", is_flag=True, help="End the running session instead of awaiting its end; its work is kept.")
@JSON
def pause(loops: tuple[str, ...], *, now: bool, as_json: bool) -> None:
    """Hold loops (all, if none is named) when their session ends."""
    done = "held from now on" if now else "held at the end of the session"
    _steer("pause", loops, done, as_json=as_json, now=now)


@click.command()
@click.argument("loops", nargs=-1)
@click.option("--now", is_flag=True, help="Have inference asked at once, also where the agent itself waits for it.")
@JSON
def resume(loops: tuple[str, ...], *, now: bool, as_json: bool) -> None:
    """Let held or waiting loops (all, if none is named) go on.

    Waits of their own are cut short. Where inference refuses all loops of an account, one of them tries, and an answer
    lets all go on. With --now an agent that waits by itself, perhaps for a limit to pass, is ended and its session
    taken up again where its CLI can do that.
    """
    _steer("resume", loops, "going on", as_json=as_json, now=now)


@click.command()
@click.argument("loop")
@click.argument("note", required=False, default="")
@JSON
def repair(loop: str, note: str, *, as_json: bool) -> None:
    """Give a loop a note of yours without a restart.

    Without a NOTE it is the advice to stop and look where it stands.

    The running session reads it where its CLI can be told something or takes its session up again; else the next does.
    A NOTE of "-" is read from standard input.
    """
    text = sys.stdin.read() if note == "-" and sys.stdin is not None else note
    _steer("repair", (loop,), "a note is left for", as_json=as_json, note=text)


@click.command()
@click.argument("loops", nargs=-1, required=True)
@click.option(
    "--clean", is_flag=True, help="Begin again from the last verified commit; what was there is parked in a ref."
)
@JSON
def restart(loops: tuple[str, ...], *, clean: bool, as_json: bool) -> None:
    """End the running session of loops and begin a new generation."""
    _steer("restart", loops, "restarting", as_json=as_json, clean=clean)


@click.command()
@click.argument("width", type=click.IntRange(min=1))
@JSON
def scale(width: int, *, as_json: bool) -> None:
    """Run WIDTH loops at once from now on.

    Fewer: the loops with the least to lose are held at the end of their session. More: those go on, and new ones begin.
    """
    for reply in here.request(here.place(), {"verb": "scale", "width": width}):
        data = reply.get("data")
        if isinstance(data, dict):
            out.data(data) if as_json else out.say(scaled(data))


def scaled(data: dict[str, Any]) -> str:
    new = f"; new: {', '.join(data['new'])}" if data["new"] else ""
    return f"{data['width']} loops at once from now on (it was {data['was']}){new}"


@click.command()
@click.argument("loops", nargs=-1)
@click.option("--now", is_flag=True, help="Don't wait for verdicts of the last commits.")
@JSON
def stop(loops: tuple[str, ...], *, now: bool, as_json: bool) -> None:
    """End the night, or only the loops that are named.

    Sessions are ended, last commits verified, results brought over into the repository.
    """
    if loops:
        _steer("stop", loops, "stopping", as_json=as_json, now=now)
        return
    where = here.place()
    try:
        _end_night(where, now=now, as_json=as_json)
    except NothingRunning as why:
        _end_what_was_left(where, why, now=now, as_json=as_json)


def _end_night(where: Place, *, now: bool, as_json: bool) -> None:
    """End the night and return when its daemon has gone, so that a `start` right after this one finds no twin."""
    daemon = ownership.owner(where.state)
    stays = False
    for reply in here.request(where, {"verb": "stop", "loops": [], "now": now}):
        data = reply.get("data")
        if "progress" in reply:
            out.hint(str(reply["progress"]))
        elif isinstance(data, dict):
            stays = bool(data.get("next_night_at"))
            out.data(data) if as_json else out.say(_ended_words(data))
    if stays:
        _await_waiting(where)
    elif daemon is not None:
        select.select([daemon], [], [], GOING_S)
        os.close(daemon)


def _ended_words(data: dict[str, object]) -> str:
    if data.get("night") is None:
        return "nobody waits for the next night any more; `ralphd start` begins one"
    words = f"night {data['night']} has ended; `ralphd report` tells what it gave"
    if due := data.get("next_night_at"):
        words += f"\nthe next night begins {due}; `ralphd stop` once more ends the waiting"
    return words


def _await_waiting(where: Place) -> None:
    """Return when the daemon answers again, between its nights: a `stop` right after this one must find it."""
    end = time.monotonic() + GOING_S
    while time.monotonic() < end:
        with contextlib.suppress(RalphdError):
            if any(_waits(reply) for reply in here.request(where, {"verb": "status"})):
                return
        time.sleep(ASK_AGAIN_S)


def _waits(reply: dict[str, object]) -> bool:
    data = reply.get("data")
    night = data.get("night") if isinstance(data, dict) else None
    return not isinstance(night, dict) or night.get("state") == "ended"


def _end_what_was_left(where: Place, why: NothingRunning, *, now: bool, as_json: bool) -> None:
    """End a night whose daemon is gone: its agents must not run on because nobody is there to be asked."""
    from ralphd.cli import memory  # noqa: PLC0415  # a stop that finds its daemon needs none of it
    from ralphd.cli.begin import find_open  # noqa: PLC0415  # a stop that finds its daemon needs none of it
    from ralphd.cli.night import take_up  # noqa: PLC0415  # the same

    left = find_open(where, here.config())
    if left is None and memory.recall(where) is not None:
        memory.forget(where)
        out.say("nobody waits for the next night any more; `ralphd start` begins one")
        return
    if left is None:
        raise why
    if code := take_up(where):
        sys.exit(code)
    if find_open(where, here.config()) is None:
        out.hint(f"night {left.id} has ended; `ralphd report` tells what it gave")
        return
    _end_night(where, now=now, as_json=as_json)
