"""`tbh doctor`: everything that could go wrong later, in one table with cures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tbh_action.commands.run_options import Duration, spec_options
from tbh_action.errors import EXIT_NOT_STARTED

if TYPE_CHECKING:
    from tbh_action.doctor.check import Check


@click.command("doctor")
@spec_options
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    help="Where the run would write [runs].",
)
@click.option("--time-budget", type=Duration(), help="The run's time budget, as in `tbh run`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.pass_context
def doctor_command(
    ctx: click.Context,
    /,
    run_dir: Path,
    time_budget: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Look at everything a run needs, before anything is paid.

    Takes the flags of `tbh run`; without a recipe, the seed's model is assumed. Exits with 3 when
    something would stop the run.
    """
    from tbh_action.doctor.examine import examine
    from tbh_action.resolve import resolve
    from tbh_action.server.hf_job import hub_api

    if not any(options.get(key) for key in ("recipe", "model", "endpoint")):
        options["recipe"] = "qwen3.8-27b-fp8"
    spec = resolve(options)
    checks = list(examine(hub_api(), spec, run_dir=run_dir, time_budget=time_budget))
    if as_json:
        click.echo(json.dumps([check.to_json() for check in checks], indent=1))
    else:
        _print_table(checks)
    if any(check.status == "fail" for check in checks):
        ctx.exit(EXIT_NOT_STARTED)


def _print_table(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    marks = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}
    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "seen", "cure"):
        table.add_column(column, overflow="fold")
    for check in checks:
        mark, style = marks[check.status]
        table.add_row(
            Text(mark, style), Text(check.name, style), Text(check.detail), Text(check.cure)
        )
    console = Console()
    console.print(table)
    counts = {status: sum(c.status == status for c in checks) for status in marks}
    console.print(
        Text(f"{counts['ok']} fine, {counts['warn']} to watch, {counts['fail']} that stop a run")
    )
