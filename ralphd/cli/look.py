"""The verbs that look and change nothing."""

from __future__ import annotations

import json

import click

from ralphd.cli import here

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@JSON
def status(*, as_json: bool) -> None:
    """Tell how the running night is doing."""
    for reply in here.request(here.place(), {"verb": "status"}):
        data = reply["data"]
        assert isinstance(data, dict)
        click.echo(json.dumps(data, indent=1))
