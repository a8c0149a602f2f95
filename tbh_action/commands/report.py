"""`tbh report`: the report of a run, written again from its results.json."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import click

from tbh_action.errors import SpecError


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
    path = source / "results.json" if source.is_dir() else source
    results = read_whole_results(path)
    if chosen == "all":
        from tbh_action.report.write import write_all

        written = write_all(results, out or path.parent / "report", templates=templates)
        for file in written:
            click.echo(str(file))
        click.echo(_terminal(results))
        return
    click.echo(_render(results, chosen, templates), nl=False)


_NEEDED: Final = (
    *("run", "model", "benchmark", "agent", "fingerprint", "counts", "n_attempts", "n_tasks"),
    *("rates", "intervals", "mean_reward", "exceptions_first", "scored_after_exception"),
    *("errors", "errors_by_class", "first_pass", "pass_at_k", "pass_hat_k", "tokens", "seconds"),
    *("cost", "passes", "tasks", "timeline", "flaky", "warnings"),
)


def read_whole_results(path: Path) -> dict[str, Any]:
    """The results document at `path`, logs and time line included.

    Raises:
        SpecError: it is absent, no JSON, or no results.json of this version.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse)
    except FileNotFoundError as error:
        raise SpecError(f"There is no {path}; give a results.json or a run directory.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(f"{path} cannot be read: {error}.") from error
    if not isinstance(document, dict) or "tasks" not in document:
        raise SpecError(f"{path} is no results.json: it has no tasks.")
    if document.get("schema_version") != 1:
        raise SpecError(
            f"{path} has schema version {document.get('schema_version')!r}; this tbh reads 1."
        )
    missing = [key for key in _NEEDED if key not in document]
    if missing:
        raise SpecError(f"{path} is no whole results.json: {', '.join(missing)} missing.")
    return document


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


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
