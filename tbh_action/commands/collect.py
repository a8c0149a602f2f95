"""`tbh collect`: the answer of a detached run, judged and reported here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tbh_action.commands.run_options import option, report_options
from tbh_action.comparison.gate_options import baseline_option, gate_options
from tbh_action.errors import (
    EXIT_NOT_STARTED,
    EXIT_USAGE,
    IncompleteError,
    NotStartedError,
    SpecError,
    TbhError,
)

if TYPE_CHECKING:
    from tbh_action.detached.progress import Progress
    from tbh_action.rundir import RunDir


@click.command("collect")
@click.argument("name")
@option("--namespace", metavar="NS", help="Who pays for the run [the token's owner].")
@option("--out", metavar="DIR", help="The run's directory here [runs/NAME].")
@baseline_option
@gate_options
@report_options
@click.pass_context
def collect_command(
    ctx: click.Context, /, name: str, namespace: str | None, out: str | None, **options: Any
) -> None:
    """Fetch the detached run NAME and report it as `tbh run` would have; exit code 4 while it is
    not finished (with what there is so far)."""
    from tbh_action.detached import answer, progress
    from tbh_action.detached import job as controller
    from tbh_action.detached.store import open_store
    from tbh_action.server import hf_job

    api = hf_job.hub_api()
    store = open_store(api, name, namespace)
    document = store.read(progress.FILE)
    if document is None:
        raise SpecError(
            f"There is no detached run {name} of {store.namespace} ({store.url}); check the name "
            "and --namespace. `tbh submit` starts one."
        )
    # Asked before the state is fetched: a controller that ends in between is only found later.
    jobs = controller.controllers(api, store.name, store.namespace)
    known = progress.Progress.from_json(document)
    target = Path(out or Path("runs") / store.name)
    with answer.fetched(store, target) as found:
        if found is None:
            where = progress.headline(name, jobs[0] if jobs else None, known)
            raise _refused(name, known) or IncompleteError(f"Nothing of {name} is stored: {where}.")
        run_dir = answer.put(found, target)
    results = answer.document(run_dir, finished=known.finished)
    if not known.finished:
        _unfinished(results, run_dir, options)
        where = progress.headline(name, jobs[0] if jobs else None, known)
        raise IncompleteError(
            f"{name} is not finished yet ({where}); what is stored is in {run_dir.root}."
        )
    code = _finished(results, run_dir, options)
    refused = _refused(name, known)
    if refused is not None:
        raise refused
    ctx.exit(code)


def _refused(name: str, known: Progress) -> TbhError | None:
    """The error of a run that measured nothing, as its controller had it."""
    if known.exit_code == EXIT_USAGE:
        return SpecError(f"{name} was refused by its controller: {known.error}")
    if known.exit_code == EXIT_NOT_STARTED:
        return NotStartedError(f"{name} could not start: {known.error}")
    return None


def _finished(document: dict[str, Any], run_dir: RunDir, options: dict[str, Any]) -> int:
    """Judges and reports, on GitHub too; the gate's exit code."""
    from tbh_action.github.surface import begin
    from tbh_action.report.terminal import render

    title = f"{document['model']['name']} on {document['benchmark']['name']}"
    with begin(title=title, comment=options["comment"], comment_key=options["comment_key"]) as page:
        final = _judged(document, run_dir, options)
        page.finish(final, run_dir.report, outputs={"run-dir": str(run_dir.root)})
    click.echo(render(final))
    click.echo(f"Report: {run_dir.report / 'index.html'}")
    return int(final["gate"]["exit_code"])


def _unfinished(document: dict[str, Any], run_dir: RunDir, options: dict[str, Any]) -> None:
    """The report so far: for whoever looks, not for the pull request."""
    from tbh_action.github.runner import Runner, in_github
    from tbh_action.github.surface import outputs_of
    from tbh_action.report.terminal import render

    final = _judged(document, run_dir, options)
    click.echo(render(final))
    if in_github():
        outputs = outputs_of(final, run_dir.report) | {"complete": "false"}
        Runner().write_outputs(outputs | {"run-dir": str(run_dir.root)})


def _judged(document: dict[str, Any], run_dir: RunDir, options: dict[str, Any]) -> dict[str, Any]:
    from tbh_action.comparison.gate_options import judgement_from
    from tbh_action.scoring.answer import write_answer

    templates = Path(options["templates"]) if options["templates"] else None
    return write_answer(run_dir, document, judgement_from(options), templates=templates)
