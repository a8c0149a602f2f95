"""The action's commands for runs whose controller is a job on the Hub."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from tbh_action.commands.cancel import cancel_command
from tbh_action.commands.collect import collect_command
from tbh_action.commands.submit import submit_command
from tbh_action.errors import SpecError
from tbh_action.github.inputs import TABLE, Call, read_call


def test_read_call__submit_and_collect() -> None:
    asked = {
        "TBH_COMMAND": "submit",
        "TBH_RECIPE": "own",
        "TBH_INCLUDE_TASK": "a*\n-b",
        "TBH_NAME": "weekly-36",
        "TBH_MAX_COST": "40",
    }
    assert read_call(asked) == Call(
        command="submit",
        arguments=(
            *("--recipe=own", "--include-task=a*", "--include-task=-b"),
            *("--max-cost=40", "--name=weekly-36"),
        ),
    )
    later = {"TBH_COMMAND": "collect", "TBH_NAME": "weekly-36", "TBH_FAIL_ON": "below:0.5"}
    assert read_call(later).arguments == ("--fail-on=below:0.5", "--", "weekly-36")


@pytest.mark.parametrize(
    ("command", "name"), [("submit", "baseline"), ("submit", "state"), ("collect", "recipe")]
)
def test_read_call__an_input_that_would_be_ignored_is_refused(command: str, name: str) -> None:
    given = {"TBH_COMMAND": command, f"TBH_{name.upper()}": "x"}
    with pytest.raises(SpecError, match=f"`command: {command}` does not use it"):
        read_call(given)


@pytest.mark.parametrize(
    "command", [submit_command, collect_command, cancel_command], ids=lambda command: command.name
)
def test_table__each_input_is_an_option_of_its_command(command: click.Command) -> None:
    known = {flag for parameter in command.params for flag in parameter.opts}
    for name, spec in TABLE.items():
        if command.name in spec.commands:
            assert f"--{name}" in known, name


def test_submit__without_a_name() -> None:
    done = CliRunner().invoke(submit_command, ["--recipe", "x"], env={"TBH_NAME": ""})
    assert done.exit_code == 2
    assert "Missing option '--name'" in done.output
