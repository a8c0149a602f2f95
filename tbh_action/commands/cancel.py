"""`tbh cancel`: ends a detached run and everything that it pays for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tbh_action.commands.run_options import option
from tbh_action.errors import NotStartedError

if TYPE_CHECKING:
    from tbh_action.server.hf_job import PaidJob


@click.command("cancel")
@click.argument("name")
@option("--namespace", metavar="NS", help="Who pays for the run [the token's owner].")
def cancel_command(name: str, namespace: str | None) -> None:
    """Cancel the controller of the detached run NAME, then all that carries the run's label.

    What is stored stays: `tbh collect` gives what was measured, and the same `tbh submit` goes on.
    """
    from tbh_action.detached import job as controller
    from tbh_action.detached.store import open_store
    from tbh_action.server import hf_job

    api = hf_job.hub_api()
    store = open_store(api, name, namespace)
    stopped: list[PaidJob] = []

    def note(job: PaidJob) -> None:
        if job.job_id not in {known.job_id for known in stopped}:
            stopped.append(job)
            trial = f" of trial {job.trial}" if job.trial else ""
            click.echo(f"cancelled {job.kind} {job.job_id} on {job.flavor}{trial}")

    left = controller.stop_all(api, store.name, store.namespace, stopped=note)
    if left:
        ids = ", ".join(f"{job.kind} {job.job_id}" for job in left)
        raise NotStartedError(
            f"May still run: {ids}; try again, or cancel them at "
            "https://huggingface.co/settings/jobs."
        )
    if not stopped:
        click.echo(f"Nothing of {name} is running.")
