"""The verbs that look and change nothing."""

from __future__ import annotations

import sys

import click

from ralphd.cli import here, out
from ralphd.cli.out import JSON
from ralphd.views.status import render_status


@click.command()
@JSON
def status(*, as_json: bool) -> None:
    """Tell how the running night is doing."""
    for reply in here.request(here.place(), {"verb": "status"}):
        data = reply["data"]
        assert isinstance(data, dict)
        if as_json:
            out.data(data)
        else:
            click.echo(render_status(data, columns=out.columns(), encoding=out.encoding()), nl=False)


@click.command()
@click.argument("night", required=False, default="")
@JSON
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@click.option("--list", "as_list", is_flag=True, help="List the nights there are, the newest last.")
def report(night: str, *, as_json: bool, as_markdown: bool, as_list: bool) -> None:
    """Tell what a night gave (the newest, if none is named)."""
    # status must not wait for the journal's libraries
    from ralphd.cli.reports import list_nights, make_report  # noqa: PLC0415
    from ralphd.core.report import to_json  # noqa: PLC0415
    from ralphd.views import markdown, terminal  # noqa: PLC0415

    where = here.place()
    if as_list:
        rows = list_nights(where, here.config())
        out.data(rows) if as_json else _show_nights(rows)
        return
    made = make_report(where, night, here.config())
    if as_json:
        out.data(to_json(made))
    elif as_markdown:
        click.echo(markdown.render_report(made), nl=False)
    else:
        bold = sys.stdout is not None and sys.stdout.isatty()
        click.echo(terminal.render_report(made, bold=bold, encoding=out.encoding()), nl=False)


def _show_nights(rows: list[dict[str, object]]) -> None:
    for row in rows:
        end = f"until {row['ended_at']} ({row['why_ended']})" if row["ended_at"] else "not ended"
        out.say(f"{row['id']}  {row['started_at']}  {end}")
