"""The options of comparison and gate, shared by the commands that compare."""

from __future__ import annotations

from typing import Any, Final

import click

from tbh_action.commands.run_options import Command, Finite, option
from tbh_action.comparison.compare import (
    DEFAULT_ALPHA,
    DEFAULT_COVERAGE_FLOOR,
    DEFAULT_MIN_EFFECT,
    Criteria,
)
from tbh_action.comparison.gate import FailOn, Policy, parse_fail_on
from tbh_action.comparison.judge import Judgement


class FailOnType(click.ParamType[FailOn]):
    """`regression`, `any-drop`, `below:0.55` or `never`."""

    name = "condition"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002 (click's signature)
        ctx: click.Context | None,  # noqa: ARG002
    ) -> FailOn:
        return value if isinstance(value, FailOn) else parse_fail_on(str(value))


_BASELINE: Final[dict[str, dict[str, Any]]] = {
    "--baseline": {
        "metavar": "PLACE",
        "help": "Compare with a results.json, a directory of runs or hf://datasets/ORG/NAME; "
        "`#latest`, `#best` or `#REVISION` after it chooses among several [latest].",
    },
}
_GATE: Final[dict[str, dict[str, Any]]] = {
    "--fail-on": {
        "type": FailOnType(),
        "default": "regression",
        "show_default": True,
        "metavar": "CONDITION",
        "help": "Exit 1 on: regression (a significant drop), any-drop, below:0.55, never.",
    },
    "--alpha": {
        "type": Finite(min=0, max=1, min_open=True, max_open=True),
        "default": DEFAULT_ALPHA,
        "show_default": True,
        "help": "Significance level of the two-sided test.",
    },
    "--min-effect": {
        "type": Finite(min=0, max=1),
        "default": DEFAULT_MIN_EFFECT,
        "show_default": True,
        "help": "Smallest drop of the pass rate that counts as a regression.",
    },
    "--coverage-floor": {
        "type": Finite(min=0, max=1),
        "default": DEFAULT_COVERAGE_FLOOR,
        "show_default": True,
        "help": "Share of planned trials that must be scored for any verdict.",
    },
    "--compare-anyway": {
        "is_flag": True,
        "default": False,
        "help": "Compare runs that were measured differently; every figure is marked.",
    },
}


def gate_options(command: Command) -> Command:
    """Adds what decides a verdict; the values arrive as keyword arguments."""
    return _with(command, _GATE)


def baseline_option(command: Command) -> Command:
    """Adds `--baseline`, for commands that have one run of their own."""
    return _with(command, _BASELINE)


def _with(command: Command, options: dict[str, dict[str, Any]]) -> Command:
    for flag, kwargs in reversed(options.items()):
        command = option(flag, **kwargs)(command)
    return command


def judgement_from(params: dict[str, Any]) -> Judgement:
    """What the options of both decorators ask; other keys of `params` are not looked at."""
    return Judgement(
        baseline=params.get("baseline") or None,
        criteria=Criteria(
            alpha=params["alpha"],
            min_effect=params["min_effect"],
            coverage_floor=params["coverage_floor"],
            force=params["compare_anyway"],
        ),
        policy=Policy(fail_on=params["fail_on"], coverage_floor=params["coverage_floor"]),
    )
