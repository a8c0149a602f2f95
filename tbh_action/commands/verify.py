"""`tbh verify`: a published result, computed again from its trials."""

from __future__ import annotations

import click


@click.command("verify")
@click.argument("bundle")
def verify_command(bundle: str) -> None:
    """Recompute the score in BUNDLE from its trial files, and say what does not agree.

    BUNDLE is a directory that `tbh publish` made, or hf://datasets/ORG/NAME/runs/RUN. It proves
    that nothing was changed since, not that the trials happened. Exit code 1 when something
    differs.
    """
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from tbh_action.escape import one_line, terminal
    from tbh_action.publishing.published import bundle_at
    from tbh_action.publishing.verify import verify

    disable_progress_bars()
    with bundle_at(bundle) as root:
        verification = verify(root)

    def say(text: str) -> None:
        click.echo(terminal(one_line(text)))

    for difference in verification.differences:
        say(difference)
    for note in verification.notes:
        say(f"note: {note}")
    if verification.differences:
        say(f"{verification.name}: {len(verification.differences)} differences.")
        raise click.exceptions.Exit(1)
    rate = "–" if verification.rate is None else f"{verification.rate:.1%}"
    say(f"{verification.name}: verified. {verification.trials} trials give {rate} of all planned.")
