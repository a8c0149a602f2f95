"""`tbh demo`: the whole main job against a loopback Hub, with real Harbor and the real client."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from tbh_action.errors import IncompleteError

_INTRO: Final = """\
This is the whole main job in about a minute, on this machine and for nothing: a loopback Hub
starts a (scripted) model server and sandboxes as Jobs, the real Harbor runs {n} small tasks with
the real terminus-2 agent, faults break some of them, and a second pass repairs what it can.
"""


@click.command("demo")
@click.option("--run-dir", metavar="DIR", help="The run's directory [runs/demo-TIME].")
@click.pass_context
def demo_command(ctx: click.Context, /, run_dir: str | None) -> None:
    """The whole main job in about a minute against a loopback Hub."""
    from tbh_action.loopback.client import LoopbackHub
    from tbh_action.loopback.demo import demo_faults
    from tbh_action.loopback.tasks import instructions

    root = Path(run_dir or f"runs/demo-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    for name in [name for name in os.environ if name.startswith("TBH_")]:
        del os.environ[name]  # the demo is the same for everybody
    click.echo(_INTRO.format(n=len(instructions())))
    with LoopbackHub(faults=demo_faults()) as hub:
        os.environ.update(hub.environment())
        code = _run(root)
        hub.wait_until_idle()
        alive, jobs = hub.alive(), hub.jobs()
    paid = sum(job["usd"] for job in jobs)
    click.echo(f"For GitHub: {root}/report/summary.md and {root}/report/comment.md")
    click.echo(
        f"The Hub lists {len(alive)} running jobs ({len(jobs)} ran, they would have cost "
        f"${paid:.4f})."
    )
    if alive:
        raise IncompleteError("The demo left something running; please report this.")
    ctx.exit(code)


def _run(root: Path) -> int:
    """The same command that a person would type."""
    from tbh_action.commands.run import run_command
    from tbh_action.loopback.tasks import DEMO_MODEL_RECIPE, DEMO_REPO_URL

    arguments = ["--recipe", os.path.relpath(DEMO_MODEL_RECIPE), "--repo", DEMO_REPO_URL]
    arguments += ["--n-concurrent", "4", "--run-dir", str(root)]
    # Some of the demo's tasks stay without a score on purpose: below the usual floor of 90 %.
    arguments += ["--coverage-floor", "0.7"]
    click.echo(f"$ tbh run {shlex.join(arguments)}\n")
    code: int = run_command.main(arguments, prog_name="tbh run", standalone_mode=False)
    return code
