"""The verbs that steer running loops: each is a request to the daemon, vetted there."""

from __future__ import annotations

import click

from ralphd.cli import here


def _steer(verb: str, loops: tuple[str, ...], done: str, **more: object) -> None:
    for reply in here.request(here.place(), {"verb": verb, "loops": list(loops), **more}):
        data = reply.get("data")
        if isinstance(data, dict):
            click.echo(f"{done}: {', '.join(str(loop) for loop in data.get('loops', []))}")


@click.command()
@click.argument("loops", nargs=-1)
@click.option("--now", is_flag=True, help="End the running session instead of awaiting its end; its work is kept.")
def pause(loops: tuple[str, ...], *, now: bool) -> None:
    """Hold loops (all, if none is named) when their session ends."""
    _steer("pause", loops, "held from now on" if now else "held at the end of the session", now=now)


@click.command()
@click.argument("loops", nargs=-1)
def resume(loops: tuple[str, ...]) -> None:
    """Let held or waiting loops go on at once."""
    _steer("resume", loops, "going on")


@click.command()
@click.argument("loops", nargs=-1, required=True)
@click.option(
    "--clean", is_flag=True, help="Begin again from the last verified commit; what was there is parked in a ref."
)
def restart(loops: tuple[str, ...], *, clean: bool) -> None:
    """End the running session of loops and begin a new generation."""
    _steer("restart", loops, "restarting", clean=clean)


@click.command()
@click.argument("loops", nargs=-1)
@click.option("--now", is_flag=True, help="Don't wait for verdicts of the last commits.")
def stop(loops: tuple[str, ...], *, now: bool) -> None:
    """End loops, or the whole night: sessions are ended, last commits verified, results brought over."""
    where = here.place()
    request: dict[str, object] = {"verb": "stop", "loops": list(loops), "now": now}
    for reply in here.request(where, request):
        if "progress" in reply:
            click.echo(reply["progress"], err=True)
        elif loops:
            click.echo(f"stopping {', '.join(loops)}")
        else:
            data = reply.get("data")
            night = data.get("night") if isinstance(data, dict) else ""
            click.echo(f"night {night} has ended; `ralphd report` tells what it gave")
