"""The result on a terminal: colours and a table there, plain lines in a log."""

from __future__ import annotations

import io
from typing import Final

from tbh_action.escape import one_line, shorten, terminal
from tbh_action.report import view, words
from tbh_action.report.words import Results

_COLOURS: Final = {"good": "green", "bad": "red", "unsure": "yellow", "none": "default"}
_SIGNS: Final = {"passed": ("✓", "green"), "failed": ("✗", "red")}
_ERRORED: Final = ("!", "yellow")
_WIDE: Final = 100


def render(results: Results, *, colour: bool = False, width: int = 100) -> str:
    """The answer, the verdict and every task. `colour` is for a terminal, never for a file."""
    return _rich(results, width) if colour else _plain(results)


def _plain(results: Results) -> str:
    verdict = view.verdict(results)
    lines = [
        _line(words.title(results)),
        words.headline(results),
        _line(f"{verdict.title}: {' '.join(verdict.sentences)}"),
        *(_line(f"Warning: {warning}") for warning in results["warnings"]),
    ]
    rows = view.task_rows(results)
    longest = min(max((len(_line(row.task)) for row in rows), default=0), 60)
    lines += ["", *(_task_line(row, longest) for row in rows)]
    if results["errors_by_class"]:
        lines += ["", words.coverage(results)]
    if (total := results["cost"]["total_usd"]) is not None:
        per_passed = words.usd(results["cost"]["per_passed_usd"])
        lines += ["", f"Cost {words.usd(total)}, {per_passed} for each passed task."]
    return terminal("\n".join(line.rstrip() for line in lines)) + "\n"


def _task_line(row: view.TaskRow, width: int) -> str:
    sign = _sign(row)[0]
    name = shorten(_line(row.task), width).ljust(width)
    return f"{sign} {name}  {_outcome(row):15} {words.duration(row.seconds):>8}  {_why(row)}"


def _rich(results: Results, width: int) -> str:
    """With rich; every text goes in as Text, so that no `[markup]` of a name takes effect."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, width=width, highlight=False, legacy_windows=False
    )
    verdict = view.verdict(results)
    console.print(Text(_line(words.title(results)), style="dim"))
    console.print(Text(words.headline(results), style="bold"))
    sentence = _line(f"{verdict.title}. {' '.join(verdict.sentences)}")
    console.print(Text(sentence, style=_COLOURS[verdict.level]))
    for warning in results["warnings"]:
        console.print(Text(_line(str(warning)), style="yellow"))
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("Task", no_wrap=True, overflow="ellipsis", max_width=max(20, width // 2))
    table.add_column("Outcome", no_wrap=True)
    columns = ("Time", "Tokens", "Trials") if width >= _WIDE else ("Time",)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Why", overflow="ellipsis", no_wrap=True, ratio=1)
    for row in view.task_rows(results):
        sign, colour = _sign(row)
        numbers = (words.duration(row.seconds), words.short_count(row.output_tokens), row.tries)
        table.add_row(
            Text(_line(row.task)),
            Text(f"{sign} {_outcome(row)}", style=colour),
            *(str(number) for number in numbers[: len(columns)]),
            Text(_why(row), style="dim"),
        )
    console.print(table)
    if coverage := words.coverage(results):
        console.print(Text(_line(coverage)))
    return file.getvalue()


def _sign(row: view.TaskRow) -> tuple[str, str]:
    return ("~", "cyan") if row.status == "mixed" else _SIGNS.get(row.status, _ERRORED)


def _outcome(row: view.TaskRow) -> str:
    if len(row.attempts) > 1:
        return f"{row.passed} of {len(row.attempts)}"
    return _line(words.outcome(row.worst))


def _why(row: view.TaskRow) -> str:
    worst = row.worst
    if worst["status"] == "passed":
        return ""
    why, kind = words.why(worst), str(worst.get("exception") or "")
    parts = (why,) if kind in why else (kind, why)  # most reasons name the exception themselves
    return shorten(_line(": ".join(part for part in parts if part)), 100)


def _line(text: str) -> str:
    return terminal(one_line(text))
