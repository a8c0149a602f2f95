"""`tbh publish`: a run on the Hub, for others to find, check and compare with."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tbh_action.escape import one_line, terminal

if TYPE_CHECKING:
    from tbh_action.publishing.bundle import Bundle
    from tbh_action.publishing.publish import Change
    from tbh_action.rundir import RunDir


@click.command("publish")
@click.argument("run_dir", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--to", "repo", metavar="ORG/NAME", required=True, help="The dataset on the Hub.")
@click.option("--model-pr", is_flag=True, help="Propose the score for the model's page, too.")
@click.option("--trajectories", is_flag=True, help="Publish what the agent did in each trial, too.")
@click.option("--private", is_flag=True, help="Create the dataset private, when it is absent.")
@click.option("--dry-run", is_flag=True, help="Show each file and its size; send nothing.")
def publish_command(
    run_dir: Path, *, repo: str, model_pr: bool, trajectories: bool, private: bool, dry_run: bool
) -> None:
    """Put the run in RUN_DIR on the Hub: results, ledger, report, trial results; no secrets.

    The dataset is a results store: --baseline hf://datasets/ORG/NAME compares with it. Publishing
    again sends only what changed. In GitHub Actions with id-token: write no token is needed.
    """
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from tbh_action.publishing.bundle import make_bundle
    from tbh_action.publishing.publish import keyless
    from tbh_action.rundir import RunDir
    from tbh_action.scoring import results

    disable_progress_bars()
    run = RunDir(run_dir.expanduser().resolve())
    document = results.read(run.results)
    with tempfile.TemporaryDirectory(prefix="tbh-publish-") as folder:
        bundle = make_bundle(run, Path(folder) / "bundle", trajectories=trajectories)
        for warning in bundle.warnings:
            _say(f"Warning: {warning}", err=True)
        with keyless(f"datasets/{repo}"):
            url = _dry(bundle, repo) if dry_run else _send(bundle, repo, private=private)
    _leaderboard(run, document, dry_run=dry_run)
    if model_pr:
        with keyless(str(document["model"]["name"])):
            _model_page(document, url, dry_run=dry_run)


def _say(text: str, *, err: bool = False) -> None:
    click.echo(terminal(one_line(text)), err=err)


def _row(size: str, what: str, path: str) -> None:
    click.echo(f"{size:>12}  {what:<8}  {terminal(one_line(path))}")


def _dry(bundle: Bundle, repo: str) -> str:
    """Prints what would be sent; the store is only read."""
    from tbh_action.errors import NotStartedError
    from tbh_action.publishing.publish import Store, changes, read_store, size_of
    from tbh_action.server.hf_job import hub_api

    api = hub_api()
    try:
        store = read_store(api, repo)
    except NotStartedError as error:
        _say(f"Warning: {error.message} All files are shown as new.", err=True)
        store = Store(repo=repo)
    change = changes(bundle, store)
    new = set(change.changed)
    for path, content in change.files.items():
        _row(f"{size_of(content):,}", "send" if path in new else "same", path)
    for path in change.deleted:
        _row("", "delete", path)
    for path, reason in sorted(bundle.left_out.items()):
        _row("", "left out", f"{path}: {reason}")
    total = sum(size_of(change.files[path]) for path in new)
    where = "a new dataset" if store.head is None else "the dataset"
    _say(f"Would send {len(new)} of {len(change.files)} files ({total:,} bytes) to {where} {repo}.")
    return f"{api.endpoint}/datasets/{repo}/tree/main/runs/{change.key}"


def _send(bundle: Bundle, repo: str, *, private: bool) -> str:
    from tbh_action.publishing.publish import upload
    from tbh_action.server.hf_job import hub_api

    done = upload(hub_api(), bundle, repo, private=private)
    if done.commits:
        _say(f"Published {_counted(done.change)} to {done.url}")
    else:
        _say(f"{done.url} has everything already; nothing was sent.")
    _say(f"Check it: tbh verify {done.address}")
    return done.url


def _counted(change: Change) -> str:
    deleted = f", {len(change.deleted)} deleted" if change.deleted else ""
    return f"{len(change.changed)} files{deleted}"


def _leaderboard(run: RunDir, document: Mapping[str, Any], *, dry_run: bool) -> None:
    """Says whether the public leaderboard's rules were kept; if so, prepares a submission."""
    from tbh_action.publishing.leaderboard import doubts, harbor_config, prepare_submission
    from tbh_action.redact import Redactor

    found = doubts(document, harbor_config(run))
    if found:
        _say(f"Not comparable with the public leaderboard: {'; '.join(found)}.")
        return
    _say("Comparable with the public leaderboard: all of its rules were kept.")
    if not dry_run:
        submission = prepare_submission(run, document, Redactor.from_environment())
        _say(f"A submission is prepared in {submission.path}. To hand it in:")
        for step in submission.steps:
            _say(f"  {step}")


def _model_page(document: Mapping[str, Any], url: str, *, dry_run: bool) -> None:
    from tbh_action.errors import NotStartedError
    from tbh_action.publishing import eval_results
    from tbh_action.server.hf_job import hub_api
    from tbh_action.server.hub_errors import explain, hub_errors

    api, model = hub_api(), str(document["model"]["name"])
    dataset = eval_results.benchmark_dataset(document)
    name = dataset.rpartition("/")[2]
    try:
        entry = eval_results.entry_of(
            document, dataset=dataset, task=eval_results.task_of(api, dataset), source_url=url
        )
        if dry_run:
            click.echo(f"Would propose for {model}, .eval_results/{name}.yaml:")
            click.echo(terminal(eval_results.file_with(None, entry)), nl=False)
            return
        proposal = eval_results.propose(api, model, name, entry)
    except hub_errors(ValueError) as error:
        raise NotStartedError(f"No pull request on {model}: {explain(error)}.") from error
    where = f": {proposal.url}" if proposal.url else ""
    _say(f"{model}, {proposal.path}: {proposal.outcome}{where}")
