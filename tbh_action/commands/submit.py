"""`tbh submit`: the controller itself becomes a small job on the Hub."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tbh_action.commands.run_options import SPEC_KEYS, Duration, Finite, option, spec_options
from tbh_action.errors import SpecError

if TYPE_CHECKING:
    from tbh_action.detached.store import Store
    from tbh_action.detached.submission import Submission
    from tbh_action.server.hf_job import PaidJob


@click.command("submit")
@spec_options
@option("--name", metavar="NAME", required=True, help="The run's name, for status and collect.")
@option("--shard", metavar="I/N", help="Only the tasks of shard I of N; `tbh merge` joins them.")
@option(
    "--max-cost",
    type=Finite(min=0, min_open=True),
    metavar="USD",
    help="Stop in an orderly way before more than this is spent.",
)
@option("--controller-flavor", metavar="FLAVOR", help="The controller's hardware [cpu-basic].")
@option("--controller-timeout", type=Duration(), help="The controller's longest life [3d].")
@option("--sync-every", type=Duration(), default="10m", show_default=True, help="Store so often.")
@option("--package", metavar="REQUIREMENT", help="What pip installs there [tbh-action==VERSION].")
def submit_command(**options: Any) -> None:
    """Start a run whose controller is a small job on the Hub, and return at once.

    It takes what `tbh run` takes to say what is measured; how it is judged is said to `tbh
    collect`. The same command goes on with a run whose controller has ended before the run did.
    """
    from tbh_action import __version__
    from tbh_action.detached import job as controller
    from tbh_action.detached import progress, submission
    from tbh_action.detached.store import open_store
    from tbh_action.policy.shard import parse_shard
    from tbh_action.resolve import resolve
    from tbh_action.rundir import utc_now
    from tbh_action.server import hf_job

    package = options["package"] or f"tbh-action=={__version__}"
    if package.startswith("-"):
        raise SpecError(f"--package takes a requirement or a URL for pip, not {package!r}.")
    if options["shard"]:
        parse_shard(options["shard"])
    spec = resolve({key: options[key] for key in SPEC_KEYS})
    api = hf_job.hub_api()
    store = open_store(api, options["name"], spec.namespace)
    asked = submission.submission(
        spec,
        name=store.name,
        namespace=store.namespace,
        package=package,
        limits=options,
        asked_at=utc_now(),
    )
    store.open()
    document = store.read(progress.FILE)
    known = progress.Progress.from_json(document) if document else None
    _refuse_another(store, asked)
    alive = [job for job in controller.controllers(api, store.name, store.namespace)
             if not job.ended]  # fmt: skip
    if known is not None and known.complete:
        click.echo(f"{store.name} is complete already. The answer: tbh collect {store.name}")
        return
    if alive:
        click.echo(f"{store.name} runs already: controller {alive[0].job_id}, {alive[0].stage}.")
        return
    job = controller.new_controller(
        store.namespace,
        options["controller_flavor"] or controller.FLAVOR,
        options["controller_timeout"] or controller.LIFETIME,
    )
    _record(store, job)
    _store(store, asked, known)
    job = controller.start(api, asked, job, sync_every=options["sync_every"])
    _record(store, job)
    again = "goes on" if known is not None else "is submitted"
    click.echo(f"{store.name} {again}: controller {job.job_id} on {job.flavor} ({store.url}).")
    for line in ("status", "logs", "collect", "cancel"):
        click.echo(f"  tbh {line} {store.name}")


def _refuse_another(store: Store, asked: Submission) -> None:
    from tbh_action.detached import submission

    document = store.read(submission.FILE)
    if document is None:
        return
    different = submission.differences(submission.Submission.from_json(document), asked)
    if different:
        raise SpecError(
            f"{store.url} holds another run (different: {', '.join(different[:6])}); give another "
            "--name."
        )


def _record(store: Store, job: PaidJob) -> None:
    """On this machine, before it is waited for: what to look for if this process is killed."""
    from tbh_action.rundir import write_json

    file = Path("runs") / f"{store.name}.controller.json"
    write_json(file, {"name": store.name, "store": store.url, "job": job.to_json()})


def _store(store: Store, asked: Submission, known: Any) -> None:
    """The question, and that an earlier controller's end is not the end."""
    import json

    from tbh_action.detached import progress, submission
    from tbh_action.rundir import utc_now

    before = asdict(known) if known is not None else {}
    now = {**before, "at": utc_now(), "exit_code": None, "tail": ()}
    files = {
        submission.FILE: json.dumps(asked.to_json(), indent=1, ensure_ascii=False).encode(),
        progress.FILE: json.dumps(now, indent=1, ensure_ascii=False).encode(),
    }
    store.write(files, f"{store.name}: submitted")
