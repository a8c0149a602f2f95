"""The `tbh` command: a table of sub-commands, each imported only when it is called."""

from __future__ import annotations

import contextlib
import difflib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from tbh_action import __version__
from tbh_action.errors import SpecError

# name → one line of help; the command itself is `<name>_command` in tbh_action/commands/<name>.py.
# The help stands here so that `tbh --help` imports no command module.
COMMANDS: Final[dict[str, str]] = {
    "run": "Start a server, run the benchmark, repair what infrastructure broke, report.",
    "resume": "Continue a run, or a job directory that stock Harbor made.",
    "serve": "Start a server for several runs, and leave it running.",
    "plan": "What a run would take and cost, and what can't run, before anything is paid.",
    "doctor": "Look at everything that could go wrong later, with cures.",
    "score": "Count a job or run directory: each task once.",
    "report": "Write the report again: summary, comment, page, JUnit, CSV.",
    "compare": "Two results side by side: is the model worse?",
    "history": "The trend over many runs, with intervals.",
    "merge": "Join shards into one result.",
    "comment": "Create or update the pull request comment.",
    "cleanup": "Cancel what earlier runs left running.",
    "recipes": "List the model and benchmark recipes.",
    "recipe": "Propose a recipe for a model, or try one.",
    "reproduce": "The commands that repeat a run.",
    "verify": "Recompute a published result from its trials.",
    "publish": "Put a run on the Hub as a dataset, and its score on the model page.",
    "releases": "Which revisions of a model have not been evaluated yet.",
    "submit": "Let the Hub run the controller itself, for runs of days.",
    "status": "Where a submitted run stands.",
    "logs": "What the controller of a submitted run says.",
    "collect": "Fetch a submitted run, judge and report it.",
    "cancel": "End a submitted run and all that it pays for.",
    "demo": "The whole main job in about a minute against a loopback Hub.",
}


class LazyGroup(click.Group):
    """Imports a command's module when the command is used, not when help is shown."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module_name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"tbh_action.commands.{module_name}")
        command: click.Command = getattr(module, f"{module_name}_command")
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _usage_errors_in_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _usage_errors_in_one_line():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@contextlib.contextmanager
def _usage_errors_in_one_line() -> Iterator[None]:
    """Click takes three lines for them."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        place = error.ctx.command_path if error.ctx else "tbh"
        said = " ".join(error.format_message().split())
        raise SpecError(f"{said} See `{place} --help`.") from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tbh")
@click.pass_context
def main(ctx: click.Context) -> None:
    """How good is this model at real work in a terminal? One number that can be trusted."""
    if Path("tbh.toml").exists():
        from tbh_action.commands.run_options import config_defaults

        defaults = config_defaults()
        _refuse_unknown(ctx, set(defaults))
        ctx.default_map = dict.fromkeys(COMMANDS, defaults)
        if "model" in defaults:  # which takes several
            ctx.default_map["releases"] = {**defaults, "models": [defaults["model"]]}


def _refuse_unknown(ctx: click.Context, keys: set[str]) -> None:
    """A key of tbh.toml that is no command's option would do nothing, and its writer not know."""
    known: set[str] = set()
    for name in COMMANDS:  # `run` comes first, and has nearly all of them
        if keys <= known:
            return
        command = main.get_command(ctx, name)
        assert command is not None
        known |= {param.name for param in command.params if param.name}
    unknown = sorted(keys - known)
    if unknown:
        near = difflib.get_close_matches(unknown[0], sorted(known), n=1)
        hint = f"did you mean {near[0].replace('_', '-')!r}?" if near else "see `tbh run --help`."
        raise SpecError(f"tbh.toml has the unknown key {unknown[0].replace('_', '-')!r}; {hint}")
