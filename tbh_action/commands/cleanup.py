"""`tbh cleanup`: cancels what earlier runs left running, and only what is provably ours."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tbh_action.commands.run_options import Duration, option
from tbh_action.durations import format_duration
from tbh_action.errors import NotStartedError, SpecError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.controller.state import RunState
    from tbh_action.rundir import RunDir
    from tbh_action.server.hf_job import PaidJob


@click.command("cleanup")
@click.option("--run", "run_name", metavar="NAME", help="Cancel what this run left running.")
@click.option(
    "--older-than",
    type=Duration(),
    help="Cancel what any run started so long ago, but no submitted run.",
)
@option("--namespace", metavar="NS", help="Whose jobs to look at.")
@click.option(
    "--runs-dir", default="runs", show_default=True, help="Where run directories lie.", hidden=True
)
def cleanup_command(
    run_name: str | None, older_than: float | None, namespace: str | None, runs_dir: str
) -> None:
    """Cancel model servers and sandboxes that a run of ours left running.

    They are found by their labels. Without --run and --older-than nothing is cancelled: what runs
    is listed.
    """
    from tbh_action.rundir import RunDir
    from tbh_action.server import hf_job

    run_dir = RunDir((Path(runs_dir) / run_name).resolve()) if run_name is not None else None
    known = _known(run_dir) if run_dir else None
    payer = namespace or (_payer(run_dir) if run_dir else None)
    api = hf_job.hub_api()
    jobs = _ours(api, payer, run_name, known.run_id if known else None, older_than)
    if run_dir is not None and known is not None:
        _stop_harbor(run_dir, known)
    if not jobs:
        click.echo("Nothing of ours is running.")
        return
    if run_name is None and older_than is None:
        click.echo("Running now (cancel with --run NAME or --older-than 6h):")
        for job in jobs:
            click.echo(f"  {_shown(job)}")
        return
    left = [job for job in jobs if not hf_job.cancel(api, job)]
    for job in jobs:
        click.echo(f"{'could NOT cancel' if job in left else 'cancelled'} {_shown(job)}")
    click.echo(_saved(api, [job for job in jobs if job not in left]))
    if left:
        raise NotStartedError(
            f"{len(left)} jobs still run; try again, or cancel them at "
            "https://huggingface.co/settings/jobs."
        )


def carries(label: str, run_name: str, run_id: str | None) -> bool:
    """Whether a job's run label says that it is of the run. Where the run's own directory says its
    id, a run of the same name on another machine is none of ours."""
    from tbh_action.controller.state import belongs_to
    from tbh_action.labels import label_value

    if run_id is None:
        return belongs_to(label, run_name)
    return label in (label_value(run_id), label_value(run_name))


def _ours(
    api: HfApi,
    namespace: str | None,
    run_name: str | None,
    run_id: str | None,
    older_than: float | None,
) -> list[PaidJob]:
    from tbh_action.controller.state import belongs_to
    from tbh_action.detached.job import KIND as CONTROLLER
    from tbh_action.labels import PROJECT, PROJECT_LABEL, RUN_LABEL
    from tbh_action.server import hf_job
    from tbh_action.server.hub_errors import explain, hub_errors

    try:
        infos = list(api.list_jobs(labels={PROJECT_LABEL: PROJECT}, namespace=namespace))
    except hub_errors() as error:
        raise NotStartedError(
            f"Cannot list the Hub's jobs: {explain(error)}. Check HF_TOKEN and the network."
        ) from error
    now = datetime.now(UTC)
    jobs = [
        (hf_job.from_info(info, namespace), (info.labels or {}).get(RUN_LABEL, ""))
        for info in infos
    ]
    running = [(job, label) for job, label in jobs if not job.ended]
    if run_name is not None:
        running = [pair for pair in running if carries(pair[1], run_name, run_id)]
    if older_than is None:
        return [job for job, _ in running]
    submitted = {label for job, label in running if job.kind == CONTROLLER} if not run_name else ()
    for name in sorted(submitted):
        click.echo(
            f"left alone: {name} has a controller on the Hub, which lives for days; end it "
            f"with `tbh cancel {name}`"
        )
    return [
        job
        for job, label in running
        if _age(job, now) >= older_than and not any(belongs_to(label, name) for name in submitted)
    ]


def _known(run_dir: RunDir) -> RunState | None:
    """The run's state, where its directory is on this machine and whole."""
    from tbh_action.controller import state

    try:
        return state.load(run_dir)
    except SpecError:
        return None


def _payer(run_dir: RunDir) -> str | None:
    from tbh_action.controller.spec_file import read_asked

    try:
        asked = read_asked(run_dir)
    except SpecError:
        return None
    return asked.spec.namespace if asked else None


def _stop_harbor(run_dir: RunDir, known: RunState) -> None:
    """Ends the Harbor that a killed controller left on this machine, if it still runs."""
    from tbh_action.harbor.process import end_leftover

    if end_leftover(known.harbor_pid, str(run_dir.root)):
        click.echo(f"stopped the Harbor process {known.harbor_pid} that was left")


def _age(job: PaidJob, now: datetime) -> float:
    if job.created_at is None:
        return 0.0
    return (now - datetime.fromisoformat(job.created_at)).total_seconds()


def _shown(job: PaidJob) -> str:
    age = format_duration(max(_age(job, datetime.now(UTC)), 0.1))
    trial = f" of trial {job.trial}" if job.trial else ""
    return f"{job.kind} {job.job_id} on {job.flavor}{trial}, started {age} ago"


def _saved(api: HfApi, jobs: list[PaidJob]) -> str:
    from tbh_action.doctor import check_hardware
    from tbh_action.policy.hardware import flavors_of, prices_of

    prices = prices_of(flavors_of(check_hardware(api)[1]))
    hourly = sum(prices.get(job.flavor, 0.0) * 60 for job in jobs)
    return f"Cancelled {len(jobs)}; they cost ${hourly:.2f} an hour."
