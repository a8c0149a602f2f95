from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from tbh_action.comparison.compare import Criteria
from tbh_action.comparison.gate import FailOn, Policy
from tbh_action.comparison.gate_options import baseline_option, gate_options, judgement_from
from tbh_action.comparison.judge import Judgement


def asked(*args: str, env: dict[str, str] | None = None) -> Judgement:
    found: list[Judgement] = []

    @click.command()
    @baseline_option
    @gate_options
    def command(**params: Any) -> None:
        found.append(judgement_from(params))

    result = CliRunner().invoke(command, args, env=env)
    assert result.exit_code == 0, result.output
    return found[0]


def test_judgement_from__defaults() -> None:
    assert asked() == Judgement(
        baseline=None,
        criteria=Criteria(alpha=0.05, min_effect=0.02, coverage_floor=0.9, force=False),
        policy=Policy(fail_on=FailOn(kind="regression"), coverage_floor=0.9),
    )


def test_judgement_from__every_flag_arrives() -> None:
    found = asked(
        "--baseline", "runs#best", "--fail-on", "below:0.5", "--alpha", "0.01",
        "--min-effect", "0.03", "--coverage-floor", "0.8", "--compare-anyway",
    )  # fmt: skip
    assert found == Judgement(
        baseline="runs#best",
        criteria=Criteria(alpha=0.01, min_effect=0.03, coverage_floor=0.8, force=True),
        policy=Policy(fail_on=FailOn(kind="below", threshold=0.5), coverage_floor=0.8),
    )


def test_judgement_from__variables_and_an_empty_one_is_not_given() -> None:
    found = asked(env={"TBH_FAIL_ON": "never", "TBH_BASELINE": "", "TBH_ALPHA": ""})
    assert found.policy.fail_on == FailOn(kind="never")
    assert found.baseline is None
    assert found.criteria.alpha == 0.05


@pytest.mark.parametrize(
    "args",
    [
        ("--fail-on", "sometimes"),
        ("--alpha", "0"),
        ("--alpha", "1"),
        ("--alpha", "nan"),
        ("--min-effect", "2"),
        ("--coverage-floor", "90"),
    ],
)
def test_gate_options__wrong_values_are_usage_errors(args: tuple[str, str]) -> None:
    command = click.command()(gate_options(lambda **_: None))
    result = CliRunner().invoke(command, args)
    assert result.exit_code == 2
    assert result.output.startswith(("Usage", "Error"))
