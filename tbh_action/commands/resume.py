"""`tbh resume`: goes on with a run, or with a job that stock Harbor made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tbh_action.commands.run_options import limit_options, option, report_options
from tbh_action.comparison.gate_options import baseline_option, gate_options
from tbh_action.errors import SpecError
from tbh_action.spec import RunSpec, validate_spec

if TYPE_CHECKING:
    from tbh_action.controller.spec_file import Asked

_POSITIVE = click.IntRange(min=1)


@click.command("resume")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@option("--recipe", metavar="NAME", help="Serve the model of a Harbor job with this recipe.")
@option("--endpoint", metavar="URL", help="Use this server (…/v1) from now on.")
@option("--model", metavar="ORG/NAME", help="The model, where the job does not say it.")
@option("--n-concurrent", type=_POSITIVE, help="Trials at a time, at most, from now on.")
@option("--min-concurrent", type=_POSITIVE, help="Trials at a time, at least.")
@option("--max-passes", type=_POSITIVE, help="Harbor passes in all.")
@option("--run-dir", metavar="DIR", help="Where a Harbor job becomes a run [runs/NAME].")
@limit_options
@baseline_option
@gate_options
@report_options
@click.pass_context
def resume_command(ctx: click.Context, /, directory: Path, **options: Any) -> None:
    """Continue the run in DIRECTORY, or make the Harbor job in DIRECTORY a run and continue it.

    A Harbor job is copied into the run's directory first; the original stays as it is.
    """
    from tbh_action.commands.execute import execute
    from tbh_action.harbor.adopt import is_harbor_job

    if (directory / "spec.json").exists():
        asked = _known(directory)
        spec, root = _changed(asked.spec, options), directory
        options["shard"] = str(asked.shard) if asked.shard else None
    elif is_harbor_job(directory):
        spec, root = _adopt(directory, options)
    else:
        raise SpecError(
            f"{directory} is neither a run of ours (spec.json) nor a Harbor job (config.json)."
        )
    ctx.exit(execute(spec, root, options))


def _known(directory: Path) -> Asked:
    from tbh_action.controller.spec_file import read_asked
    from tbh_action.rundir import RunDir

    asked = read_asked(RunDir(directory.resolve()))
    assert asked is not None
    return asked


def _changed(spec: RunSpec, options: dict[str, Any]) -> RunSpec:
    document = spec.model_dump()
    for key in ("n_concurrent", "min_concurrent", "max_passes"):
        if options[key] is not None:
            document[key] = options[key]
    document["min_concurrent"] = min(document["min_concurrent"], document["n_concurrent"])
    if options["endpoint"] is not None:
        if spec.server is not None:
            raise SpecError(
                "This run serves its model itself; --endpoint would make it another run."
            )
        document["endpoint"] = options["endpoint"]
    return validate_spec(document)


def _adopt(job: Path, options: dict[str, Any]) -> tuple[RunSpec, Path]:
    """The spec of a foreign job, and the directory in which it is a run."""
    from tbh_action import recipes
    from tbh_action.controller.spec_file import read_asked
    from tbh_action.harbor.adopt import copy_job, read_foreign
    from tbh_action.rundir import open_run_dir

    foreign = read_foreign(job)
    root = Path(options["run_dir"] or Path("runs") / job.resolve().name)
    run_dir = open_run_dir(root)
    document = dict(foreign.document)
    said, asked = foreign.document["model"]["name"], options["model"]
    if said and asked and said != asked:
        raise SpecError(f"{job} measures {said}; with --model {asked} it would be another run.")
    document["model"] = {"name": said or asked or ""}
    if options["recipe"]:
        recipe = recipes.load("models", options["recipe"])
        if recipe.get("model") not in (None, said or asked):
            raise SpecError(
                f"The recipe {options['recipe']} serves {recipe['model']}, and {job} measures "
                f"{said or asked}."
            )
        document["server"] = recipe.get("server")
    else:
        document["endpoint"] = options["endpoint"] or foreign.api_base
    if not options["recipe"] and not document["endpoint"]:
        raise SpecError(f"Which server? {job} names none; give --endpoint URL or --recipe NAME.")
    spec = _changed(validate_spec(document), options)
    if read_asked(run_dir) is None and not run_dir.harbor_job.exists():
        run_dir.harbor_job.parent.mkdir(parents=True, exist_ok=True)
        copy_job(job, run_dir)
        click.echo(f"copied {job} to {run_dir.root}; the original stays as it is")
    return spec, root
