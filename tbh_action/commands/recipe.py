"""`tbh recipe new` and `tbh recipe check`: a recipe for a model that has none, and a look at it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from tbh_action.commands.run_options import Duration
from tbh_action.errors import EXIT_INCOMPLETE, IncompleteError, NotStartedError, SpecError

if TYPE_CHECKING:
    from tbh_action.recipes.check import Tried
    from tbh_action.recipes.model_families import Engine
    from tbh_action.rundir import RunDir
    from tbh_action.spec import RunSpec

_ENGINES: Final = ("vllm", "sglang", "llama.cpp")


@click.group("recipe")
def recipe_command() -> None:
    """Propose a model recipe, or try one for a minute."""


@recipe_command.command("new")
@click.argument("model", metavar="ORG/MODEL")
@click.option("--engine", type=click.Choice(_ENGINES), help="The server [by the model's files].")
@click.option("--revision", metavar="REV", help="The model's revision [the newest].")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file [MODEL.toml]."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def new_command(
    model: str, engine: str | None, revision: str | None, out: Path | None, force: bool
) -> None:
    """Propose a recipe for ORG/MODEL from its Hub metadata, and say what was guessed.

    Costs nothing and starts nothing.
    """
    from tbh_action.doctor import check_hardware
    from tbh_action.escape import one_line
    from tbh_action.recipes.model_facts import look_up
    from tbh_action.recipes.model_memory import machines_of
    from tbh_action.recipes.proposal import file_name, propose
    from tbh_action.rundir import write_atomic
    from tbh_action.server.hf_job import hub_api

    path = out or Path(file_name(model))
    if path.suffix != ".toml":
        raise SpecError(f"{path} must end in .toml, so that --recipe knows it as a file.")
    if path.exists() and not force:
        raise SpecError(f"{path} exists; give --force to replace it, or another --out.")
    api = hub_api()
    facts = look_up(api, model, revision)
    check, hardware = check_hardware(api)
    if not hardware:
        raise NotStartedError(f"{check.detail} → {check.cure}")
    proposal = propose(facts, machines_of(hardware), cast("Engine | None", engine))
    try:
        write_atomic(path, proposal.toml())
    except OSError as error:
        raise SpecError(f"Cannot write {path}: {error.strerror}.") from error
    machine = proposal.fit.machine
    click.echo(f"{path}: {one_line(facts.name)} on {machine.flavor}, "
               f"${machine.usd_per_minute * 60:.2f} an hour")  # fmt: skip
    click.echo("Guessed:")
    for guess in proposal.guesses:
        click.echo(f"  - {one_line(guess)}")
    click.echo("Next:")
    click.echo(f"  tbh run --recipe {path} --dry-run   # what a run would do, for nothing")
    click.echo(
        f"  tbh recipe check {path}   # one server, one question: "
        f"${machine.usd_per_minute * 10:.2f} for each ten minutes"
    )


@recipe_command.command("check")
@click.argument("recipe", metavar="NAME|FILE")
@click.option("--flavor", metavar="FLAVOR", help="Other hardware than the recipe's.")
@click.option("--namespace", metavar="NS", help="Who pays on the Hub.")
@click.option("--schedule-timeout", type=Duration(), help="Longest wait for hardware [1h].")
@click.option("--load-timeout", type=Duration(), help="Longest wait for the model to load.")
@click.option("--mount-model", is_flag=True, default=None, help="Mount the model.")
@click.option(
    "--run-dir",
    "parent",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    help="Where the check's record goes [runs].",
)
@click.pass_context
def check_command(ctx: click.Context, /, recipe: str, parent: Path, **options: Any) -> None:
    """Start the recipe's server, ask it one thing, stop it. Costs a few minutes of its hardware."""
    from tbh_action.doctor.check import failures
    from tbh_action.doctor.examine import check_hub
    from tbh_action.recipes.check import new_check_dir, remarks
    from tbh_action.resolve import resolve
    from tbh_action.server.hf_job import hub_api

    spec = resolve({"recipe": recipe, **options})
    api = hub_api()
    problems = failures(check_hub(api, spec))
    if problems:
        raise NotStartedError("\n  - ".join(["Nothing was started:", *problems]))
    run_dir = new_check_dir(parent, spec.model.name)
    signals: list[int] = []
    try:
        tried = asyncio.run(_try(api, spec, run_dir, signals))
    except IncompleteError as error:
        if not signals:
            raise
        click.echo(error.message, err=True)
        ctx.exit(128 + signals[0])
    _show(tried)
    found = remarks(spec, tried)
    for remark in found:
        click.echo(f"! {remark}")
    if found:
        ctx.exit(EXIT_INCOMPLETE)


async def _try(api: Any, spec: RunSpec, run_dir: RunDir, signals: list[int]) -> Tried:
    from tbh_action.controller.journal import Journal
    from tbh_action.recipes.check import try_recipe

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        signals.append(number)
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    say = Journal(run_dir.events).say
    return await try_recipe(api, spec, run_dir, say=say, stopped=stopped)


def _show(tried: Tried) -> None:
    from tbh_action.durations import format_duration
    from tbh_action.escape import one_line

    answer = tried.answer
    speed = f", {answer.tokens / answer.seconds:.0f} tokens a second" if answer.tokens else ""
    window = f"{tried.context_length:,} tokens" if tried.context_length else "not reported"
    price = "unknown" if tried.usd is None else f"${tried.usd:.2f}"
    click.echo(f"✓ answered {format_duration(tried.seconds_to_answer)} after it was asked for")
    click.echo(f"✓ window: {window}")
    click.echo(f"✓ one answer in {answer.seconds:.1f} s{speed}: {one_line(answer.text)[-200:]}")
    click.echo(f"✓ thoughts {'come apart from' if answer.thoughts else 'none beside'} the answer")
    click.echo(f"✓ stopped; it cost {price}")
