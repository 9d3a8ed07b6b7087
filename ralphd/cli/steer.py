"""The verbs that steer running loops: each is a request to the daemon, vetted there."""

from __future__ import annotations

import click

from ralphd.cli import here, out
from ralphd.cli.out import JSON


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
@JSON
def resume(loops: tuple[str, ...], *, as_json: bool) -> None:
    """Let held or waiting loops go on at once."""
    _steer("resume", loops, "going on", as_json=as_json)


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
    for reply in here.request(here.place(), {"verb": "stop", "loops": [], "now": now}):
        data = reply.get("data")
        if "progress" in reply:
            out.hint(str(reply["progress"]))
        elif isinstance(data, dict) and as_json:
            out.data(data)
        elif isinstance(data, dict):
            out.say(f"night {data.get('night')} has ended; `ralphd report` tells what it gave")
