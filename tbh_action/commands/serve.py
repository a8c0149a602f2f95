"""`tbh serve`: one server for several runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from tbh_action.commands.run_options import SPEC_KEYS, option, spec_options
from tbh_action.errors import SpecError


@click.command("serve")
@spec_options
@option("--name", metavar="NAME", required=True, help="The server's name, for `tbh cleanup`.")
@click.pass_context
def serve_command(ctx: click.Context, /, **options: Any) -> None:
    """Start the model server that `tbh run` would start, and leave it running for other runs.

    It takes what they take, so that all is looked at before anything is paid. They use it by `tbh
    run --server-job ID`; `tbh cleanup --run NAME` stops it, and at the latest its timeout does.
    """
    from tbh_action.controller.journal import Journal
    from tbh_action.controller.prepare import Request, prepare
    from tbh_action.controller.serve import serve
    from tbh_action.github.runner import Runner
    from tbh_action.resolve import resolve
    from tbh_action.rundir import locked, open_run_dir

    name = options["name"]
    if Path(name).name != name or not name.isprintable():
        raise SpecError(f"--name {name!r} is no name of a directory.")
    spec = resolve({key: options[key] for key in SPEC_KEYS})
    if spec.server is None:
        raise SpecError("--endpoint is a server that runs already; there is none to start.")
    run_dir = open_run_dir(Path("runs") / name)
    with locked(run_dir):
        prepared = prepare(Request(spec=spec), run_dir, Journal(run_dir.events))
        ready = asyncio.run(serve(prepared))
    if isinstance(ready, int):
        ctx.exit(128 + ready)
    assert ready.job is not None
    Runner().write_outputs({"server-job-id": ready.job.job_id})
    click.echo(f"Use it: tbh run --server-job {ready.job.job_id} …")
    click.echo(f"Stop it: tbh cleanup --run {name}")
