"""`tbh merge`: shards and legs into one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tbh_action.commands.run_options import option, report_options
from tbh_action.comparison.gate_options import baseline_option, gate_options
from tbh_action.errors import SpecError


@click.command("merge")
@click.argument(
    "directories", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@option("--out", metavar="DIR", default="runs/merged", show_default=True, help="Where to write.")
@click.option("--allow-missing", is_flag=True, help="Merge even when a shard is missing.")
@baseline_option
@gate_options
@report_options
@click.pass_context
def merge_command(
    ctx: click.Context,
    /,
    directories: tuple[Path, ...],
    out: str,
    allow_missing: bool,
    **options: Any,
) -> None:
    """Join the results of shards or legs (run directories, or results.json files) into one.

    Different fingerprints, scores that disagree and missing shards are refused.
    """
    from tbh_action.comparison.gate_options import judgement_from
    from tbh_action.github.surface import begin
    from tbh_action.report.terminal import render
    from tbh_action.rundir import RunDir
    from tbh_action.scoring import results
    from tbh_action.scoring.answer import write_answer
    from tbh_action.scoring.merge import merge

    run_dir = RunDir(Path(out).resolve())
    if run_dir.spec.exists():
        raise SpecError(f"{out} holds a run, whose results would be lost; give another --out.")
    documents = {
        str(place): results.read(place / "results.json" if place.is_dir() else place)
        for place in directories
    }
    joined = merge(documents, name=run_dir.name, allow_missing=allow_missing)
    templates = Path(options["templates"]) if options["templates"] else None
    title = f"{joined['model']['name']} on {joined['benchmark']['name']}"
    with begin(title=title, comment=options["comment"], comment_key=options["comment_key"]) as page:
        final = write_answer(run_dir, joined, judgement_from(options), templates=templates)
        page.finish(final, run_dir.report, outputs={"run-dir": str(run_dir.root)})
    click.echo(render(final))
    click.echo(f"Report: {run_dir.report / 'index.html'}")
    ctx.exit(int(final["gate"]["exit_code"]))
