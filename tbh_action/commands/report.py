"""`tbh report`: the report of a run, written again from its results.json."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click


@click.command("report")
@click.argument("source", type=click.Path(path_type=Path), metavar="RESULTS_OR_RUN_DIR")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to write.  [default: report/ beside results.json]",
)
@click.option(
    "--templates",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="TBH_TEMPLATES",
    help="A folder with Jinja templates of your own (summary.md.jinja, comment.md.jinja).",
)
@click.option(
    "--format",
    "chosen",
    type=click.Choice(["all", "terminal", "summary", "comment", "html", "junit", "csv"]),
    default="all",
    show_default=True,
    help="`all` writes the files; any other prints that one.",
)
def report_command(source: Path, out: Path | None, templates: Path | None, chosen: str) -> None:
    """Write summary.md, comment.md, index.html, junit.xml and results.csv, or print one of them."""
    from tbh_action.scoring.results import read

    path = source / "results.json" if source.is_dir() else source
    results = read(path)
    if chosen == "all":
        from tbh_action.report.write import write_all

        written = write_all(results, out or path.parent / "report", templates=templates)
        for file in written:
            click.echo(str(file))
        click.echo(_terminal(results))
        return
    click.echo(_render(results, chosen, templates), nl=False)


def _render(results: dict[str, Any], chosen: str, templates: Path | None) -> str:
    from tbh_action.redact import Redactor
    from tbh_action.report import junit, markdown, page, table

    if chosen == "terminal":
        return _terminal(results)
    clean = Redactor.from_environment().document(results)
    if chosen == "summary":
        return markdown.render_summary(clean, templates=templates)
    if chosen == "comment":
        from tbh_action.github.marker import marker

        return markdown.render_comment(clean, marker=marker("", 0, ""), templates=templates)
    return {"html": page.render, "junit": junit.render, "csv": table.render}[chosen](clean)


def _terminal(results: dict[str, Any]) -> str:
    from tbh_action.redact import Redactor
    from tbh_action.report import terminal

    width = shutil.get_terminal_size((100, 24)).columns
    clean = Redactor.from_environment().document(results)
    return terminal.render(clean, colour=sys.stdout.isatty(), width=width)
