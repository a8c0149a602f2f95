"""`tbh reproduce`: the commands that repeat a run."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tbh_action.errors import SpecError


@click.command("reproduce")
@click.argument("results", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where recipe files go, if any are needed [reproduce-NAME].",
)
@click.option("--run", "execute", is_flag=True, help="Run it now. Costs what the run cost.")
def reproduce_command(results: Path, directory: Path | None, execute: bool) -> None:
    """Print what repeats the run behind RESULTS (a results.json).

    The flags are the fewest that ask for the very same thing; recipe files are written where no
    shipped recipe does.
    """
    from tbh_action.escape import one_line
    from tbh_action.publishing.reproduce import reproduction
    from tbh_action.rundir import write_atomic
    from tbh_action.scoring import results as results_file

    document = results_file.read(results)
    name = str(document["run"]["name"])
    found = reproduction(document, directory or Path(f"reproduce-{Path(name).name}"))
    try:
        for path, text in found.files.items():
            write_atomic(path, text)
    except OSError as error:
        raise SpecError(f"Cannot write {error.filename}: {error.strerror}.") from error
    for note in found.notes:
        click.echo(f"# {one_line(note)}")
    click.echo(shlex.join(found.run))
    if execute:
        from tbh_action.cli import main

        main(list(found.run[1:]))
    click.echo("\n# The same by hand, without repairs and without the gateway:")
    if found.server:
        click.echo(found.server)
    click.echo(found.harbor)
