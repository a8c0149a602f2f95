"""The five files of a report, beside each other in one directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tbh_action.github.marker import marker as make_marker
from tbh_action.redact import Redactor
from tbh_action.report import junit, markdown, page, table
from tbh_action.report.markdown import Links
from tbh_action.report.words import Results
from tbh_action.rundir import write_atomic

NAMES: Final = ("summary.md", "comment.md", "index.html", "junit.xml", "results.csv")


def write_all(
    results: Results,
    directory: Path,
    *,
    templates: Path | None = None,
    marker: str | None = None,
    links: Links | None = None,
    redactor: Redactor | None = None,
) -> list[Path]:
    """Writes summary.md, comment.md, index.html, junit.xml and results.csv without secrets.

    `marker` begins the comment (default: one that `tbh comment` replaces by its own).

    Raises:
        SpecError: a template of the user's own is broken.
    """
    clean = (redactor or Redactor.from_environment()).document(results)
    first_line = marker or make_marker("", 0, "")
    renderers: Mapping[str, Callable[[], str]] = {
        "summary.md": lambda: markdown.render_summary(clean, templates=templates, links=links),
        "comment.md": lambda: markdown.render_comment(
            clean, marker=first_line, templates=templates, links=links
        ),
        "index.html": lambda: page.render(clean),
        "junit.xml": lambda: junit.render(clean),
        "results.csv": lambda: table.render(clean),
    }
    texts = {name: render() for name, render in renderers.items()}
    for name, text in texts.items():
        write_atomic(directory / name, text)
    return [directory / name for name in texts]
