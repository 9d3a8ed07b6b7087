"""The verb that tries the way to the person: a notification that never arrives is found out before the night."""

from __future__ import annotations

import os
import socket

import click

from ralphd.cli import out, settings
from ralphd.core.errors import ConfigError
from ralphd.daemon.assign import base_environment
from ralphd.edges.notifier import Apprise


@click.command()
@click.option("--config", "config", metavar="FILE", default="", help="Use this ralphd.toml.")
def notify(config: str) -> None:
    """Send a test message to every place in notify.urls."""
    found = settings.found_from(os.getcwd(), config)
    urls = found.read().notify.urls
    if not urls:
        raise ConfigError(f'{found.path} has no notify.urls; write [notify] and urls = ["…"] as apprise has them')
    words = f"A test from {socket.gethostname()}: this is how a night will reach you."
    Apprise(urls, base_environment(os.environ)).notify("ralphd: test", words)
    out.say(f"told in {'1 place' if len(urls) == 1 else f'{len(urls)} places'}; see whether it arrived")
