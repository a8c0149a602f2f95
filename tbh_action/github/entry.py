"""The action's own entry: inputs from the environment, one `tbh` command in this process.

`python -m tbh_action.github.entry` is what action.yml executes. The command runs in the same
process, so that the runner's signals reach it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from tbh_action.errors import (
    EXIT_INCOMPLETE,
    EXIT_NOT_STARTED,
    EXIT_USAGE,
    IncompleteError,
    NotStartedError,
    SpecError,
    TbhError,
)
from tbh_action.github.context import Context, read_context
from tbh_action.github.inputs import TABLE, Call, parse_boolean, read_call, variable
from tbh_action.github.marker import digest
from tbh_action.github.runner import Annotation, Runner
from tbh_action.github.surface import FORK_ADVICE, open_page

_PAYING: Final = ("run", "resume", "serve", "submit", "collect", "cancel")
_BUG: Final = 70
_HOW_TO_PAY: Final = (
    "there is no Hugging Face token. Make a fine-grained one with access to Jobs, store it as the "
    "repository secret HF_TOKEN, and pass `hf-token: ${{ secrets.HF_TOKEN }}` "
    "(docs/workflows.md, “Permissions and tokens”)."
)


def main() -> int:
    """The exit code of the action's step."""
    runner = Runner()
    try:
        call = read_call(os.environ)
        context = read_context(os.environ)
        skip = _before(call, context, os.environ)
    except TbhError as error:
        return _failed(runner, error)
    if skip and call.command == "cleanup":
        click.echo(skip)
        return 0
    if skip:
        runner.annotate([Annotation(level="notice", title="Terminal-Bench: skipped", message=skip)])
        runner.append_summary(f"**Terminal-Bench was skipped.** {skip}\n")
        runner.write_outputs({"complete": "false"})
        return 0
    run_dir = os.environ.get("TBH_AFTER_RUN_DIR", "").strip()
    arguments = [*with_name(call, context, run_dir), *_after_dashes(call)]
    key = os.environ.get("TBH_COMMENT_KEY", "").strip()
    for name in TABLE:
        os.environ.pop(variable(name), None)  # they are arguments now; click would read them again
    code = run_command([call.command, *arguments], runner)
    if code == EXIT_INCOMPLETE and os.environ.get("TBH_LEG") == "true":
        code = 0  # the next leg goes on, and the last job of the workflow says the verdict
    if call.command == "cleanup":
        open_page(mode="auto", key=key, env=os.environ, runner=runner).close("was interrupted")
    return code


def _before(call: Call, context: Context, env: Mapping[str, str]) -> str:
    """Why there is nothing to do, or an empty string.

    Raises:
        SpecError, NotStartedError: what must be different before anything is paid.
    """
    forks = env.get("TBH_FORKS", "").strip() or "fail"
    if forks not in ("fail", "skip"):
        raise SpecError(f"input `forks`: {forks!r} is neither fail nor skip.")
    if call.command == "cleanup" and _kept(env):
        return "The server is kept for the next leg (`keep-server: true`)."
    if env.get("HF_TOKEN") or call.command not in (*_PAYING, "cleanup"):
        return ""
    pull_request = context.pull_request
    from_fork = pull_request is not None and pull_request.from_fork
    if from_fork and forks == "skip":
        return "The pull request comes from a fork, whose runs get no secrets."
    if call.command == "cleanup":
        return "Without a Hugging Face token nothing can have been started."
    message = FORK_ADVICE if from_fork else f"input `hf-token`: {_HOW_TO_PAY}"
    raise NotStartedError(message)


def _kept(env: Mapping[str, str]) -> bool:
    """For the action's own cleanup step: was the server to be kept?"""
    text = env.get("TBH_AFTER_KEPT", "").strip()
    try:
        return bool(text) and parse_boolean(text)
    except ValueError:
        return False


def with_name(call: Call, context: Context, run_dir: str = "") -> list[str]:
    """The options, with a name that no other job has where none was given.

    Cleanup finds what is paid by this name; two jobs that shared one would stop each other's. A
    run is called like its directory, where that was chosen.
    """
    options = list(call.arguments[: _dashes(call)])
    flag = {"run": "--name", "serve": "--name", "cleanup": "--run"}.get(call.command)
    if flag is None:
        return options
    if call.command == "cleanup" and run_dir:
        place = Path(run_dir).resolve()
        options = [option for option in options if not option.startswith(f"{flag}=")]
        return [*options, f"{flag}={place.name}", f"--runs-dir={place.parent}"]
    if any(option.startswith(f"{flag}=") for option in options) or not context.run_id:
        return options
    who = digest(f"{context.repository}\n{context.job}\n{context.matrix}")[:8]
    return [*options, f"{flag}=ci-{context.run_id}-{who}"]


def _dashes(call: Call) -> int:
    return call.arguments.index("--") if "--" in call.arguments else len(call.arguments)


def _after_dashes(call: Call) -> Sequence[str]:
    return call.arguments[_dashes(call) :]


def run_command(arguments: Sequence[str], runner: Runner) -> int:
    """One `tbh` command in this process; its errors also stand beside the run."""
    from tbh_action.cli import main as tbh

    try:
        code = tbh.main(list(arguments), prog_name="tbh", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except IncompleteError as error:
        return _unfinished(runner, error) if arguments[0] == "collect" else _failed(runner, error)
    except click.ClickException as error:
        return _failed(runner, error)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else _BUG
    return code if isinstance(code, int) else 0


def _unfinished(runner: Runner, error: IncompleteError) -> int:
    """A detached run that is still on its way is no failure of the job that looks after it."""
    message = error.format_message()
    click.echo(message)
    runner.annotate([Annotation(level="notice", title="Terminal-Bench", message=message)])
    runner.write_outputs({"complete": "false"})
    return 0


def _failed(runner: Runner, error: click.ClickException) -> int:
    """A user's error: in the log, beside the run, and as the summary that there is."""
    from tbh_action.escape import markdown_text

    error.show(file=sys.stderr)
    message = error.format_message()
    runner.annotate([Annotation(level="error", title="Terminal-Bench", message=message)])
    what = "could not start" if error.exit_code == EXIT_NOT_STARTED else "stopped"
    if error.exit_code == EXIT_USAGE:
        what = "has a wrong input"
    runner.append_summary(f"### Terminal-Bench {what}\n\n{markdown_text(message)}\n")
    runner.write_outputs({"complete": "false"})
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
