"""The verb that lets a browser on this machine look in: a process of its own, which the night doesn't notice."""

from __future__ import annotations

import os

import click

from ralphd.cli import here, out
from ralphd.cli.out import JSON
from ralphd.core.errors import UsageError
from ralphd.edges.processes import forbid_reading


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen there; else on a free one.")
@click.option("--allow-actions", is_flag=True, help="Let loops be paused, resumed and restarted from the pages.")
@click.option("--token-file", metavar="FILE", default="", help="Use the token in this file, e.g. for Prometheus.")
@click.option("--open", "open_it", is_flag=True, help="Open a browser too.")
@JSON
def web(*, port: int, allow_actions: bool, token_file: str, open_it: bool, as_json: bool) -> None:
    """Serve the night to a browser on this machine until Ctrl-C.

    It prints an address to open. Whoever has that address may look until you end it; nobody else can, whatever user
    of this machine they are. From another machine, first run `ssh -L PORT:127.0.0.1:PORT` there, with --port PORT here.
    Prometheus reads /metrics, with the token behind the address's # as its bearer token.
    """
    if allow_actions and token_file:
        raise UsageError("agents could read a token that lies in a file: --allow-actions and --token-file exclude")
    import webbrowser  # noqa: PLC0415  # --help must wait for none of this

    from ralphd.cli.webserve import LOOPBACK, open_door, serve, sources  # noqa: PLC0415  # as above

    where = here.place()
    forbid_reading()
    listening, door = open_door(port, token_file)
    url = f"http://{LOOPBACK}:{door.port}/#{door.token}"
    out.data({"url": url, "pid": os.getpid(), "actions": allow_actions}) if as_json else out.say(url)
    if open_it:
        webbrowser.open(url)
    serve(listening, sources(where, here.config(), allow_actions=allow_actions), door)
