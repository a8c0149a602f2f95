"""`tbh releases`: what was released and not measured yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from tbh_action.commands.run_options import Lines
from tbh_action.errors import SpecError

# Each new revision costs hours of a GPU: a model with a long history must not start them all.
_AT_MOST: Final = 3


@click.command("releases")
@click.option(
    "--model",
    "models",
    multiple=True,
    type=Lines(),
    envvar="TBH_MODEL",
    metavar="ORG/NAME",
    help="A model on the Hub; several are fine.",
)
@click.option("--store", required=True, metavar="PLACE", help="Directory or hf://datasets/…")
@click.option("--tags", metavar="GLOB", help="Tags that are releases [the head of main].")
@click.option("--benchmark", metavar="NAME", help="Only results of this benchmark count.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=_AT_MOST, show_default=True, help="At most."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list for a matrix.")
def releases_command(models: tuple[str, ...], store: str, as_json: bool, **options: Any) -> None:
    """List the revisions of a model on the Hub that the results store does not have.

    A revision with any results there, complete or not, is not new.
    """
    from tbh_action.github.runner import Runner
    from tbh_action.publishing.releases import evaluated_in, new_releases, releases_on_hub
    from tbh_action.server.hf_job import hub_api

    if not models:
        raise SpecError("Which model? Give --model ORG/NAME.")
    runner = Runner()
    store_is_new = "://" not in store and not Path(store).exists()
    evaluated, problems = ([], ()) if store_is_new else evaluated_in(store)
    for problem in problems:
        runner.warn("Results not readable", problem)
    api = hub_api()
    found = [item for name in models for item in releases_on_hub(api, name, tags=options["tags"])]
    fresh = new_releases(found, evaluated, benchmark=options["benchmark"])
    chosen = fresh[: options["limit"]]
    document = json.dumps([release.to_json() for release in chosen])
    if as_json:
        click.echo(document)
    else:
        for release in chosen:
            click.echo(f"new: {release.model} {release.revision} ({release.ref})")
        if not chosen:
            click.echo("Nothing new.")
    if len(fresh) > len(chosen):
        runner.warn("More is new", f"{len(fresh) - len(chosen)} more revisions wait (--limit)")
    runner.write_outputs({"new": document, "any": "true" if chosen else "false"})
