"""`tbh status`: where a detached run stands."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from tbh_action.commands.run_options import option
from tbh_action.errors import SpecError


@click.command("status")
@click.argument("name")
@option("--namespace", metavar="NS", help="Who pays for the run [the token's owner].")
def status_command(name: str, namespace: str | None) -> None:
    """Where the detached run NAME stands: its controller, and what it has stored."""
    from tbh_action.detached import job as controller
    from tbh_action.detached import progress
    from tbh_action.detached.store import open_store
    from tbh_action.server import hf_job

    api = hf_job.hub_api()
    store = open_store(api, name, namespace)
    jobs = controller.controllers(api, store.name, store.namespace)
    document = store.read(progress.FILE)
    if document is None and not jobs:
        raise SpecError(
            f"There is no detached run {name} of {store.namespace} ({store.url}); check the name "
            "and --namespace. `tbh submit` starts one."
        )
    known = progress.Progress.from_json(document) if document else None
    for line in progress.story(name, jobs[0] if jobs else None, known, datetime.now(UTC)):
        click.echo(line)
