"""`tbh logs`: what the controller of a detached run says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from tbh_action.commands.run_options import option
from tbh_action.errors import NotStartedError, SpecError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob

_PAUSE: Final = 2.0


@click.command("logs")
@click.argument("name")
@option("--namespace", metavar="NS", help="Who pays for the run [the token's owner].")
@click.option("--follow", is_flag=True, help="Go on until the controller ends.")
def logs_command(name: str, namespace: str | None, *, follow: bool) -> None:
    """The log of the newest controller of the detached run NAME."""
    from tbh_action.detached import job as controller
    from tbh_action.detached.store import open_store
    from tbh_action.escape import terminal
    from tbh_action.redact import Redactor
    from tbh_action.server import hf_job

    api = hf_job.hub_api()
    store = open_store(api, name, namespace)
    jobs = controller.controllers(api, store.name, store.namespace)
    if not jobs:
        raise SpecError(f"There is no controller of a run {name} of {store.namespace}.")
    redactor = Redactor.from_environment()
    lines = _followed(api, jobs[0]) if follow else _now(api, jobs[0])
    for line in lines:
        click.echo(redactor.text(terminal(line)))


def _now(api: HfApi, job: PaidJob) -> Iterator[str]:
    from tbh_action.server.hub_errors import explain, hub_errors

    try:
        for line in api.fetch_job_logs(job_id=job.job_id, namespace=job.namespace):
            yield str(line).rstrip("\n")
    except hub_errors() as error:
        raise NotStartedError(f"The Hub does not give the log: {explain(error)}") from error


def _followed(api: HfApi, job: PaidJob) -> Iterator[str]:
    """The log until the job ends. A stream that breaks off is taken up again behind what was seen:
    the job's stage is the truth, its log is not."""
    from tbh_action.server import hf_job
    from tbh_action.server.hub_errors import hub_errors

    seen = 0
    while True:
        ended = job.ended
        try:
            for number, line in enumerate(
                api.fetch_job_logs(job_id=job.job_id, namespace=job.namespace, follow=not ended)
            ):
                if number >= seen:
                    seen = number + 1
                    yield str(line).rstrip("\n")
        except hub_errors():
            time.sleep(_PAUSE)
        if ended:
            return
        try:
            job = hf_job.inspect(api, job)
        except hub_errors(ValueError, KeyError, TypeError):
            time.sleep(_PAUSE)
