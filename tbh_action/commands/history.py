"""`tbh history PLACE`: how the number moved over the releases, with its uncertainty."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tbh_action.escape import one_line, terminal

if TYPE_CHECKING:
    from rich.table import Table

    from tbh_action.comparison.history import Point, Series

_BAR: Final = 30
_WIDTH_WITH_BARS: Final = 130
_FILE_WIDTH: Final = 150


@click.command("history")
@click.argument("place")
@click.option("--model", metavar="NAME", help="Only runs of this model.")
@click.option("--json", "as_json", is_flag=True, help="Print the series as JSON.")
def history_command(place: str, model: str | None, as_json: bool) -> None:
    """The trend of the runs at PLACE, a directory of runs or hf://datasets/ORG/NAME.

    Runs that were measured alike make one table; numbers of two tables can't be compared.
    """
    from tbh_action.comparison.earlier import read_earlier
    from tbh_action.comparison.history import flaky_tasks, trend

    earlier = read_earlier(place)
    series = trend(earlier.runs, model=model)
    flaky = flaky_tasks(run for run in earlier.runs if model is None or run.model == model)
    for problem in earlier.problems:
        click.echo(f"Warning: {_safe(problem)}", err=True)
    if as_json:
        document = {"series": [item.document() for item in series], "flaky": flaky}
        click.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        _print(place, series, flaky)


def _print(place: str, series: Sequence[Series], flaky: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH

    def line(text: str) -> None:
        # Rich must not wrap foreign text: a runner reads what then begins a line as a command.
        console.print(Text(text), soft_wrap=True)

    if not series:
        line(f"No results at {_safe(place)}.")
    for item in series:
        measured = item.conditions[:12] or "unknown"
        line(f"{_safe(item.benchmark) or 'Unnamed benchmark'}, measured as {measured}")
        console.print(_table(item, with_bars=console.width >= _WIDTH_WITH_BARS))
    if flaky:
        line("Passed and failed with everything the same:")
    for row in flaky:
        line(f"  {_safe(row['task'])}: passed {row['passed']}, failed {row['failed']}")


def _safe(text: str) -> str:
    return terminal(one_line(text))


def _table(series: Series, *, with_bars: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in ("Ended", "Model", "Revision"):
        table.add_column(heading, overflow="fold")
    for heading in ("Passed", "Of all", "95 % interval", "Scored", "Cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    if with_bars:
        table.add_column("0 % to 100 %", no_wrap=True)
    for point in series.points:
        bar = [_bar(point.rate_all, *point.interval_all)] if with_bars else []
        table.add_row(*(Text(cell) for cell in [*_cells(point), *bar]))
    return table


def _cells(point: Point) -> list[str]:
    low, high = point.interval_all
    return [
        _safe(point.date or "unknown")[:10] + ("" if point.complete else " (incomplete)"),
        _safe(point.model),
        _safe(point.revision)[:12],
        f"{point.passed}/{point.planned}",
        "–" if point.rate_all is None else f"{point.rate_all:.1%}",
        f"{100 * low:.1f}–{100 * high:.1f}",
        f"{point.scored}/{point.planned}",
        "–" if point.total_usd is None else f"${point.total_usd:,.2f}",
    ]


def _bar(rate: float | None, low: float, high: float) -> str:
    """The interval as a line and the rate as a dot on a fixed scale, for the eye."""
    if rate is None:
        return ""
    first, last = round(low * (_BAR - 1)), round(high * (_BAR - 1))
    cells = [" "] * first + ["─"] * (last - first + 1)
    cells[min(last, max(first, round(rate * (_BAR - 1))))] = "●"
    return "".join(cells).ljust(_BAR)
