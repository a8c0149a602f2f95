"""What `tbh run` and `tbh resume` share: from a spec and a directory to an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from tbh_action.comparison.baseline import check_baseline
from tbh_action.comparison.gate_options import judgement_from
from tbh_action.comparison.judge import Judgement
from tbh_action.controller import run, state_file
from tbh_action.controller.journal import Journal
from tbh_action.controller.prepare import Prepared, Request, prepare
from tbh_action.controller.signals import answering
from tbh_action.errors import EXIT_INCOMPLETE, IncompleteError, NotStartedError, SpecError
from tbh_action.github.surface import Page, begin
from tbh_action.policy.plan import earlier_seconds
from tbh_action.policy.shard import parse_shard
from tbh_action.report.markdown import check_templates
from tbh_action.report.terminal import render
from tbh_action.rundir import RunDir, locked, open_run_dir
from tbh_action.scoring.answer import make_results, write_answer
from tbh_action.spec import RunSpec

# Where the Hub's token belongs: its jobs' proxy, its inference endpoints, its Spaces, itself.
_HUB_HOSTS: Final = ("hf.jobs", "huggingface.co", "huggingface.cloud", "hf.space")


def execute(spec: RunSpec, root: Path, options: dict[str, Any]) -> int:
    """Runs one leg and writes its answer. Returns the exit code (see errors.py).

    Raises:
        SpecError, NotStartedError, IncompleteError: with what to do.
    """
    judgement = judgement_from(options)
    if judgement.baseline is not None:
        check_baseline(judgement.baseline)
    if options.get("templates"):
        check_templates(Path(options["templates"]))
    request = Request(
        spec=spec,
        shard=parse_shard(options["shard"]) if options.get("shard") else None,
        time_budget=options["time_budget"],
        max_cost=options["max_cost"],
        keep_server=options["keep_server"],
        server_job=_server_job(spec, options),
        earlier=_earlier(judgement.baseline),
        endpoint_key=endpoint_key(spec.endpoint, os.environ),
    )
    run_dir = open_run_dir(root)
    packed = Path(options["state"]) if options.get("state") else None
    page = begin(
        title=f"{spec.model.name} on {spec.benchmark.name}",
        comment=options["comment"],
        comment_key=options["comment_key"],
    )
    with locked(run_dir), page:
        if packed is not None and state_file.unpack(packed, run_dir):
            click.echo(f"continuing from {packed}")
        try:
            return _leg(request, run_dir, judgement, options, page)
        except KeyboardInterrupt:
            click.echo(f"Interrupted. The state is in {run_dir.root}.", err=True)
            return 130
        except OSError as error:  # a full disk; what is paid was stopped on the way here
            raise IncompleteError(
                f"Cannot go on: {error.strerror or error}. What was earned is in {run_dir.root}; "
                "the same command goes on from there."
            ) from error
        finally:
            if packed is not None and run_dir.spec.exists():
                state_file.pack(run_dir, packed)


def _server_job(spec: RunSpec, options: Mapping[str, Any]) -> str | None:
    job_id: str | None = options.get("server_job")
    if job_id is not None and spec.server is None:
        raise SpecError("--server-job and --endpoint are two servers; give one of them.")
    return job_id


def endpoint_key(endpoint: str | None, environ: Mapping[str, str]) -> str | None:
    """The key for a server that is not ours: its own (`OPENAI_API_KEY`), or the Hub's token where
    the Hub itself is asked. Nobody else is ever sent that."""
    own = environ.get("OPENAI_API_KEY")
    if own or endpoint is None:
        return own or None
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    hub = parts.scheme == "https" and any(
        host == known or host.endswith(f".{known}") for known in _HUB_HOSTS
    )
    stand_in = urlsplit(environ.get("HF_ENDPOINT") or "")
    same = (parts.scheme, parts.netloc) == (stand_in.scheme, stand_in.netloc)
    return environ.get("HF_TOKEN") or None if hub or same else None


def _leg(
    request: Request,
    run_dir: RunDir,
    judgement: Judgement,
    options: dict[str, Any],
    page: Page,
) -> int:
    journal = Journal(run_dir.events)
    prepared = prepare(request, run_dir, journal)
    number: int | None = None
    failure: NotStartedError | None = None
    with contextlib.ExitStack() as last_seconds:
        try:
            number = asyncio.run(run.run_leg(prepared))
        except NotStartedError as error:
            failure = error
        finally:
            last_seconds.enter_context(answering(journal.say))
            left = run.settle(prepared)
        if left:
            journal.say(
                f"MAY STILL RUN: {', '.join(left)}; stop it: tbh cleanup --run {run_dir.name}"
            )
        final = _answer(prepared, judgement, options)
        page.finish(final, run_dir.report, outputs={"run-dir": str(run_dir.root)})
    if number is not None:
        click.echo(f"The state is in {run_dir.root}; the same command goes on from there.")
        return 128 + number
    if failure is not None and not final["counts"]["passed"] + final["counts"]["failed"]:
        raise failure
    if failure is not None:
        click.echo(f"Error: {failure.message}", err=True)
        return EXIT_INCOMPLETE
    return int(final["gate"]["exit_code"])


def _answer(prepared: Prepared, judgement: Judgement, options: dict[str, Any]) -> dict[str, Any]:
    from tbh_action.publishing import provenance

    run_dir = prepared.run_dir
    document = make_results(
        run_dir,
        prepared.asked,
        prepared.state,
        [task.name for task in prepared.tasks.tasks],
        provenance=provenance.of_run(
            run_dir,
            prepared.asked.spec,
            prepared.state,
            prepared.tasks,
            str(prepared.asked.shard) if prepared.asked.shard else None,
        ),
        warnings=prepared.warnings,
    )
    templates = Path(options["templates"]) if options.get("templates") else None
    final = write_answer(run_dir, document, judgement, templates=templates)
    click.echo()
    click.echo(render(final))
    click.echo(f"Report: {run_dir.report / 'index.html'}")
    return final


def _earlier(baseline: str | None) -> dict[str, float]:
    """Seconds a trial took in the run that this one is compared with, where that is a file."""
    if baseline is None or not Path(baseline).is_file():
        return {}
    from tbh_action.scoring import results

    try:
        return earlier_seconds(results.read(Path(baseline)))[0]
    except SpecError:
        return {}
