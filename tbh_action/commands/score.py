"""`tbh score`: count any Harbor job directory, or a run directory, each task once."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("score")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print the whole results document.")
@click.option(
    "--reward-key",
    default="reward",
    show_default=True,
    help="The verifier's reward that counts, when a task has several.",
)
def score_command(directory: Path, *, as_json: bool, reward_key: str) -> None:
    """Count a Harbor job directory or a run directory: each task once.

    Reads only files: no network, no Harbor. Known secrets are masked in what is printed.
    """
    from tbh_action.redact import Redactor
    from tbh_action.scoring.directory import score_directory
    from tbh_action.scoring.results import dumps
    from tbh_action.scoring.score_text import render

    document = score_directory(directory, reward_key=reward_key, with_logs=as_json)
    document = Redactor.from_environment().document(document)
    click.echo(dumps(document) if as_json else render(document), nl=False)
