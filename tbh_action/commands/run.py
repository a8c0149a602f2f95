"""`tbh run`: the whole main job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tbh_action.commands.run_options import (
    SPEC_KEYS,
    limit_options,
    option,
    report_options,
    spec_options,
)
from tbh_action.comparison.gate_options import baseline_option, gate_options
from tbh_action.errors import SpecError


@click.command("run")
@spec_options
@limit_options
@option("--name", metavar="NAME", help="The run's name [model and benchmark].")
@option("--run-dir", metavar="DIR", help="The run's directory [runs/NAME].")
@option("--server-job", metavar="ID", help="Use the server that `tbh serve` started.")
@option("--shard", metavar="I/N", help="Only the tasks of shard I of N; `tbh merge` joins them.")
@baseline_option
@gate_options
@report_options
@click.option("--dry-run", is_flag=True, help="Print what would be done; start nothing.")
@click.option("--print-spec", is_flag=True, help="Print the resolved spec and its fingerprint.")
@click.pass_context
def run_command(ctx: click.Context, /, dry_run: bool, print_spec: bool, **options: Any) -> None:
    """Start a model server, run the benchmark on it, repair what infrastructure broke, report.

    The same command continues a run that was interrupted or ran out of time.
    """
    from tbh_action.resolve import resolve

    spec = resolve({key: options[key] for key in SPEC_KEYS})
    if print_spec:
        document = {"fingerprint": spec.fingerprint(), "spec": spec.model_dump(mode="json")}
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return
    name = options["name"] or _default_name(spec.model.name, spec.benchmark.name)
    if Path(name).name != name or not name.isprintable():
        raise SpecError(f"--name {name!r} is no name of a directory; a path is given by --run-dir.")
    root = Path(options["run_dir"] or Path("runs") / name)
    if dry_run:
        from tbh_action.policy.shard import parse_shard

        if options["shard"]:
            parse_shard(options["shard"])
        from tbh_action.controller.dry_run import describe

        click.echo(describe(spec, root))
        return
    from tbh_action.commands.execute import execute

    ctx.exit(execute(spec, root, options))


def _default_name(model: str, benchmark: str) -> str:
    from tbh_action.escape import filename

    return filename(f"{model.rsplit('/', 1)[-1].lower()}-{benchmark}")
