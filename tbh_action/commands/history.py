"""`tbh history PLACE`: how the number moved over the releases, with its uncertainty."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tbh_action.escape import one_line

if TYPE_CHECKING:
    from rich.table import Table

    from tbh_action.history import Point, Series

_BAR: Final = 30


@click.command("history")
@click.argument("place")
@click.option("--model", metavar="NAME", help="Only runs of this model.")
@click.option("--json", "as_json", is_flag=True, help="Print the series as JSON.")
def history_command(place: str, model: str | None, as_json: bool) -> None:
    """The trend of the runs at PLACE, a directory of runs or hf://datasets/ORG/NAME.

    Runs that were measured alike make one table; numbers of two tables can't be compared.
    """
    from tbh_action.earlier import read_earlier
    from tbh_action.history import flaky_tasks, trend

    earlier = read_earlier(place)
    series = trend(earlier.runs, model=model)
    flaky = flaky_tasks(run for run in earlier.runs if model is None or run.model == model)
    for problem in earlier.problems:
        click.echo(f"Warning: {one_line(problem)}", err=True)
    if as_json:
        document = {"series": [item.document() for item in series], "flaky": flaky}
        click.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        _print(place, series, flaky)


def _print(place: str, series: Sequence[Series], flaky: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if not series:
        console.print(Text(f"No results at {one_line(place)}."))
    for item in series:
        console.print(_table(item))
    if flaky:
        console.print(Text("Passed and failed with everything the same:"))
    for row in flaky:
        counts = f"passed {row['passed']}, failed {row['failed']}"
        console.print(Text(f"  {one_line(row['task'])}: {counts}"))


def _table(series: Series) -> Table:
    from rich.table import Table
    from rich.text import Text

    measured = series.conditions[:12] or "unknown"
    title = f"{one_line(series.benchmark) or 'unnamed benchmark'}, measured as {measured}"
    table = Table(title=Text(title), title_justify="left")
    for heading in ("Ended", "Model", "Revision"):
        table.add_column(heading, overflow="fold")
    for heading in ("Passed", "Of all", "95 % interval", "Scored", "Cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("0 % to 100 %", no_wrap=True)
    for point in series.points:
        table.add_row(*(Text(cell) for cell in _cells(point)))
    return table


def _cells(point: Point) -> list[str]:
    low, high = point.interval_all
    return [
        one_line(point.date or "unknown")[:10] + ("" if point.complete else " (incomplete)"),
        one_line(point.model),
        one_line(point.revision)[:12],
        f"{point.passed}/{point.planned}",
        "–" if point.rate_all is None else f"{point.rate_all:.1%}",
        f"{100 * low:.1f}–{100 * high:.1f}",
        f"{point.scored}/{point.planned}",
        "–" if point.total_usd is None else f"${point.total_usd:,.2f}",
        _bar(point.rate_all, low, high),
    ]


def _bar(rate: float | None, low: float, high: float) -> str:
    """The interval as a line and the rate as a dot on a fixed scale, for the eye."""
    if rate is None:
        return ""
    first, last = round(low * (_BAR - 1)), round(high * (_BAR - 1))
    cells = [" "] * first + ["─"] * (last - first + 1)
    cells[min(last, max(first, round(rate * (_BAR - 1))))] = "●"
    return "".join(cells)
