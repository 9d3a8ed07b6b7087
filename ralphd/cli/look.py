"""The verbs that look and change nothing."""

from __future__ import annotations

import os
import sys

import click

from ralphd.cli import here, out
from ralphd.cli.out import JSON
from ralphd.cli.place import Place
from ralphd.core.errors import UsageError
from ralphd.views.status import render_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.report_parts import Report


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
@click.option("--html", "as_html", is_flag=True, help="Print one HTML page that needs nothing else.")
@click.option("--open", "open_it", is_flag=True, help="Write the HTML page and open it in a browser.")
@click.option("--compare", "other", metavar="NIGHT", default="", help="Hold it against this night.")
@click.option("--list", "as_list", is_flag=True, help="List the nights there are, the newest last.")
def report(
    night: str, *, as_json: bool, as_markdown: bool, as_html: bool, open_it: bool, other: str, as_list: bool
) -> None:
    """Tell what a night gave (the newest, if none is named)."""
    # status must not wait for the journal's libraries
    from ralphd.cli.reports import list_nights, make_report  # noqa: PLC0415
    from ralphd.core.report import to_json  # noqa: PLC0415
    from ralphd.views import markdown, terminal  # noqa: PLC0415

    if as_json + as_markdown + as_html + open_it > 1:
        raise UsageError("--json, --markdown, --html and --open are four forms of one report: ask for one of them")
    where = here.place()
    if as_list:
        rows = list_nights(where, here.config())
        out.data(rows) if as_json else _show_nights(rows)
        return
    made = make_report(where, night, here.config())
    if other:
        if open_it:
            raise UsageError("--compare is printed only: --html > compared.html, then open that")
        _show_compared(
            made,
            make_report(where, other, here.config()),
            "json" if as_json else "md" if as_markdown else "html" if as_html else "",
        )
        return
    if as_json:
        out.data(to_json(made))
    elif as_markdown:
        click.echo(markdown.render_report(made), nl=False)
    elif as_html or open_it:
        _show_page(where, made, open_it=open_it)
    else:
        bold = sys.stdout is not None and sys.stdout.isatty()
        click.echo(terminal.render_report(made, bold=bold, encoding=out.encoding()), nl=False)


def _show_compared(made: Report, other: Report, form: str) -> None:
    from ralphd.core import compare  # noqa: PLC0415  # as above
    from ralphd.views import compared, html, markdown, terminal  # noqa: PLC0415  # as above

    told = compare.compare(made, other)
    if form == "json":
        out.data(compare.to_json(told))
    elif form == "md":
        click.echo(markdown.render_page(compared.page(told), compared.title(told)), nl=False)
    elif form == "html":
        click.echo(html.page(compared.title(told), "".join(map(html.render_block, compared.page(told)))), nl=False)
    else:
        bold = sys.stdout is not None and sys.stdout.isatty()
        click.echo(terminal.render_page(compared.page(told), bold=bold, encoding=out.encoding()), nl=False)


def _show_page(where: Place, made: Report, *, open_it: bool) -> None:
    import webbrowser  # noqa: PLC0415  # 0.1 s, which status is spared
    from urllib.parse import quote  # noqa: PLC0415

    from ralphd.cli.reports import extras, write_report  # noqa: PLC0415  # as above
    from ralphd.core.config import Config  # noqa: PLC0415
    from ralphd.views import html  # noqa: PLC0415

    config = here.config()
    if not open_it:
        click.echo(html.render_report(made, extras(where, made, config)), nl=False)
        return
    write_report(where, config or Config(), made.night.id)
    page = os.path.join(where.night(made.night.id), "report.html")
    out.say(page)
    if not webbrowser.open(f"file://{quote(page)}"):
        out.hint("no browser could be opened here; the page is the file above")


def _show_nights(rows: list[dict[str, object]]) -> None:
    for row in rows:
        end = f"until {row['ended_at']} ({row['why_ended']})" if row["ended_at"] else "not ended"
        out.say(f"{row['id']}  {row['started_at']}  {end}")
