"""`tbh plan`: what a run would take, before anything is paid."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tbh_action.commands.run_options import SPEC_KEYS, Duration, option, spec_options
from tbh_action.errors import EXIT_NOT_STARTED, NotStartedError, SpecError

if TYPE_CHECKING:
    from tbh_action.harbor.tasks import TaskList
    from tbh_action.policy.hardware import Flavor
    from tbh_action.spec import RunSpec


@click.command("plan")
@spec_options
@option("--time-budget", type=Duration(), help="The length of one leg [5h30m].")
@option("--shard", metavar="I/N", help="Only the tasks of shard I of N.")
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    metavar="RESULTS.json",
    help="Take the tasks' times from this earlier run.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def plan_command(
    ctx: click.Context,
    /,
    time_budget: float | None,
    shard: str | None,
    history: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Say what a run would take: what can't run, time, legs, servers, cost. Pays nothing.

    Takes the flags of `tbh run`. Downloads the tasks, and asks the Hub for its prices where it
    can. Exits with 3 when a task can't run.
    """
    from tbh_action.policy.plan import make_plan
    from tbh_action.policy.plan_text import render
    from tbh_action.policy.shard import parse_shard, shard_of
    from tbh_action.resolve import resolve

    spec = resolve({key: options[key] for key in SPEC_KEYS})
    part = parse_shard(shard) if shard else None
    earlier = _read_history(history) if history else None
    found = _tasks(spec)
    tasks = [
        task
        for task in found.tasks
        if part is None or shard_of(task.name, part.count) == part.index
    ]
    if not tasks:
        raise SpecError("No task is left: look at --include-task, --exclude-task and --shard.")
    plan = make_plan(spec, tasks, _flavors(spec), history=earlier, time_budget=time_budget)
    if as_json:
        click.echo(json.dumps(asdict(plan), indent=1))
    else:
        click.echo(render(plan), nl=False)
        if found.left_out:
            names = ", ".join(found.left_out[:5])
            click.echo(f"\nWarning: Harbor leaves out folders that it finds invalid: {names}")
    if plan.cannot_run:
        ctx.exit(EXIT_NOT_STARTED)


def _read_history(path: Path) -> dict[str, Any]:
    """An earlier run's results: the file, or a run's directory."""
    file = path / "results.json" if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"Cannot read --history {file}: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("tasks"), list):
        raise SpecError(f"--history {file} is no results.json (it has no tasks).")
    return document


def _tasks(spec: RunSpec) -> TaskList:
    """The spec's tasks, as Harbor resolves them; only its download cache keeps something."""
    from tbh_action.controller.preflight import in_our_words
    from tbh_action.harbor import command
    from tbh_action.harbor.tasks import resolve_tasks
    from tbh_action.rundir import RunDir, write_json

    with tempfile.TemporaryDirectory(prefix="tbh-plan-") as folder:
        question = Path(folder) / "harbor-job.json"
        write_json(question, command.job_config(spec, RunDir(Path(folder))))
        env = command.harbor_environment(
            base_url="", api_key="", control_url="", control_key="", run_id=""
        )
        try:
            return resolve_tasks(question, env)
        except NotStartedError as error:
            raise NotStartedError(in_our_words(error.message, spec)) from error


def _flavors(spec: RunSpec) -> dict[str, Flavor]:
    """The Hub's hardware; {} when nothing is paid there or the Hub does not say (the plan then
    says that the cost is unknown)."""
    from tbh_action.doctor import check_hardware
    from tbh_action.policy.hardware import flavors_of
    from tbh_action.server.hf_job import hub_api

    if spec.server is None and spec.environment.type != "hf-sandbox":
        return {}
    return flavors_of(check_hardware(hub_api())[1])
