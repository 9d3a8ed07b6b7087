"""The verbs that look and change nothing."""

from __future__ import annotations

import json
import shutil
import sys

import click

from ralphd.cli import here
from ralphd.core.report import to_json
from ralphd.views import markdown, terminal
from ralphd.views.status import render_status

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@JSON
def status(*, as_json: bool) -> None:
    """Tell how the running night is doing."""
    for reply in here.request(here.place(), {"verb": "status"}):
        data = reply["data"]
        assert isinstance(data, dict)
        if as_json:
            click.echo(json.dumps(data, indent=1))
        else:
            columns = shutil.get_terminal_size().columns
            click.echo(render_status(data, columns=columns, encoding=sys.stdout.encoding), nl=False)


@click.command()
@click.argument("night", required=False, default="")
@JSON
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
def report(night: str, *, as_json: bool, as_markdown: bool) -> None:
    """Tell what a night gave (the newest, if none is named)."""
    from ralphd.cli.reports import make_report  # noqa: PLC0415  # status must not wait for the journal's libraries

    made = make_report(here.place(), night)
    if as_json:
        click.echo(json.dumps(to_json(made), indent=1))
    elif as_markdown:
        click.echo(markdown.render_report(made), nl=False)
    else:
        click.echo(terminal.render_report(made, bold=sys.stdout.isatty(), encoding=sys.stdout.encoding), nl=False)
