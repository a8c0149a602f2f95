"""The job summary and the pull request comment: Jinja templates, safe by default.

Every value that a template prints is escaped as Markdown text unless a filter made it something
else (`code`, `fence`, …), so a template of a user's own cannot forget it. `--templates DIR` puts
files in front of ours; `{% extends "default/comment.md.jinja" %}` replaces single blocks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import (
    ChoiceLoader,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

import tbh_action
from tbh_action import escape
from tbh_action.errors import SpecError
from tbh_action.report import limits, view, words
from tbh_action.report.mermaid import outcomes_chart, time_chart
from tbh_action.report.reproduce import EXACT_COMMAND, run_command
from tbh_action.report.words import Results
from tbh_action.scoring.outcomes import plan_of
from tbh_action.scoring.results import RunFacts, build

SUMMARY: Final = "summary.md.jinja"
COMMENT: Final = "comment.md.jinja"
# Longer texts stand in the page; here they would push the table off the screen.
_LONGEST_TEXT: Final = 240
# GitHub's coloured boxes, for what must not be overlooked.
_ALERTS: Final = {"bad": "CAUTION", "unsure": "WARNING"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Links:
    """Where the rest is: the page of the CI run, and the artifact or page with the whole report."""

    run: str = ""
    report: str = ""

    @property
    def where(self) -> str:
        """One Markdown sentence for what was left out."""
        url = self.report or self.run
        if url:
            return f"It is in [the full report](<{_url(url)}>)."
        return "It is in `index.html` beside this file."


def render_summary(
    results: Results, *, templates: Path | None = None, links: Links | None = None
) -> str:
    """The job summary: at most 1 MiB, the headline first.

    Raises:
        SpecError: a template of the user's own is missing or broken.
    """
    place = links or Links()
    text = _render(SUMMARY, results, templates, place, marker="")
    return limits.fit_summary(text, where=place.where)


def render_comment(
    results: Results, *, marker: str, templates: Path | None = None, links: Links | None = None
) -> str:
    """The pull request comment: at most 65,536 characters, `marker` (an HTML comment) first.

    Raises:
        SpecError: a template is broken, or left the marker out: without it the next run would
            not find its comment, and write another one each time.
    """
    place = links or Links()
    text = _render(COMMENT, results, templates, place, marker=marker)
    if not text.startswith(marker):
        raise SpecError(
            f"The template {COMMENT} does not begin with the hidden marker; "
            "let its first line be {{ marker }}."
        )
    return limits.fit_comment(text, where=place.where)


def check_templates(templates: Path) -> None:
    """Renders a small result with the user's own templates, before anything is paid for.

    Raises:
        SpecError: one of them is broken.
    """
    sample = build(RunFacts(name="sample"), plan_of(["org/task"], 1), [])
    render_summary(sample, templates=templates)
    render_comment(sample, marker="<!-- sample -->", templates=templates)


def _render(
    name: str, results: Results, templates: Path | None, links: Links, *, marker: str
) -> str:
    if templates is not None and not templates.is_dir():
        raise SpecError(f"{templates} is no directory; give --templates a folder of templates.")
    try:
        template = _environment(templates).get_template(name)
        text = template.render(**_context(results, links, marker))
    except TemplateNotFound as error:
        raise SpecError(f"The template {error.name} is missing.") from error
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        place = f"{getattr(error, 'name', None) or name}{f', line {line}' if line else ''}"
        raise SpecError(f"The template {place} is broken: {error.message}.") from error
    except (TypeError, ValueError, KeyError, ArithmeticError) as error:
        raise SpecError(f"The template {name} is broken: {error}.") from error
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def builtin_templates() -> Path:
    """Our own: inside the package when installed, `templates/` at the top of a checkout."""
    package = Path(tbh_action.__file__).parent
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


@functools.lru_cache(maxsize=4)
def _environment(templates: Path | None) -> ImmutableSandboxedEnvironment:
    ours = FileSystemLoader(builtin_templates())
    theirs = [FileSystemLoader(templates)] if templates else []
    environment = ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([*theirs, ours, PrefixLoader({"default": ours})]),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= _FILTERS
    return environment


def _finalize(value: Any) -> Markup:
    """What `{{ value }}` prints: Markdown text, unless a filter or a block made it already."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup(words.UNKNOWN)  # noqa: S704 (a constant)
    if isinstance(value, int | float):
        return Markup(value)  # noqa: S704 (a number)
    return Markup(escape.markdown_text(_text(value)))  # noqa: S704 (escaped here)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _made(function: Callable[..., str]) -> Callable[..., Markup]:
    """A filter whose result is finished Markdown."""

    @functools.wraps(function)
    def filtered(*arguments: Any, **options: Any) -> Markup:
        return Markup(function(*arguments, **options))  # noqa: S704 (that is the filter's promise)

    return filtered


def _short(value: Any, limit: int = _LONGEST_TEXT) -> str:
    return escape.shorten(escape.one_line("" if value is None else _text(value)), limit)


def _url(url: str) -> str:
    return re.sub(r"[^\w:/?#@!$&'()*+,;=.~%-]", "", escape.one_line(url))


def _link(text: str, url: str) -> str:
    clean = _url(url)
    label = escape.markdown_text(text)
    return f"[{label}](<{clean}>)" if re.match(r"https?://", clean) else label


def _mark(row: Results) -> str:
    """An outcome with its sign: the sign is for the eye, the word for everybody."""
    sign = {"passed": "✅", "failed": "❌"}.get(row["status"], "⚠️")
    return f"{sign}\u00a0{escape.markdown_text(words.outcome(row))}"


def _status(status: str) -> str:
    sign = {"passed": "✅\u00a0", "failed": "❌\u00a0", "errored": "⚠️\u00a0"}.get(status, "")
    return f"{sign}{escape.markdown_text(status)}"


_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "code": _made(lambda value: escape.markdown_code(_short(value))),
    "fence": _made(lambda value, language="": escape.markdown_fence(_text(value), language)),
    "short": _short,
    "sentence": words.sentence,
    "why": words.why,
    "link": _made(_link),
    "mark": _made(_mark),
    "status": _made(_status),
    # Numbers in our own words: nothing in them is foreign.
    **{
        function.__name__: _made(function)
        for function in (
            words.percent,
            words.points,
            words.interval,
            words.short_count,
            words.number,
            words.p_value,
            words.duration,
            words.moment,
        )
    },
    "usd": words.usd,
}


def _context(results: Results, links: Links, marker: str) -> dict[str, Any]:
    """What a template sees: `results`, what is derived from it, and where it will stand."""
    verdict = view.verdict(results)
    return {
        "results": results,
        "marker": Markup(marker),  # noqa: S704 (ours)
        "links": links,
        "part": _made(limits.part),
        "title": words.title(results),
        "headline": Markup(words.headline(results)),  # noqa: S704 (numbers and our words)
        "coverage": words.coverage(results),
        "verdict": verdict,
        "alert": Markup(_ALERTS.get(verdict.level, "")),  # noqa: S704 (a constant)
        "flips": view.flips(results),
        "errors": view.error_rows(results),
        "classes": words.CLASSES,
        "tasks": view.task_rows(results),
        "baseline_passed": view.baseline_passed(results),
        "baseline": (results.get("comparison") or {}).get("baseline") or {},
        "baseline_name": words.baseline_name(results.get("comparison") or {}),
        "provenance": view.provenance_rows(results),
        "known": words.known,
        "elapsed": words.elapsed,
        "plural": words.plural,
        "command": f"{EXACT_COMMAND}\n{run_command(results)}",
        "charts": [
            Markup(chart)  # noqa: S704 (labels went through escape.mermaid)
            for chart in (outcomes_chart(results), time_chart(results))
            if chart
        ],
        "version": tbh_action.__version__,
    }
