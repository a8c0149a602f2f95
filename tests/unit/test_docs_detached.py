"""The page on detached runs says what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tbh_action.commands.run_options import SPEC_KEYS
from tbh_action.commands.submit import submit_command
from tbh_action.detached import job
from tbh_action.github.inputs import OWN, read_call, variable

PAGE = (Path(__file__).parents[2] / "docs" / "detached.md").read_text(encoding="utf-8")
WORKFLOWS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_page__its_table_names_the_options_that_only_submit_has() -> None:
    rows = set(re.findall(r"^\| `(--[a-z-]+)` \|", PAGE, re.MULTILINE))
    options = {
        parameter.opts[0]: parameter
        for parameter in submit_command.params
        if isinstance(parameter, click.Option) and parameter.name not in SPEC_KEYS
    }
    assert rows == set(options) - {"--shard", "--max-cost"}
    assert options["--sync-every"].default == "10m"
    assert (job.FLAVOR, job.LIFETIME) == ("cpu-basic", 3 * 24 * 3600)


@pytest.mark.parametrize("text", WORKFLOWS, ids=["submit", "collect"])
def test_page__its_workflows_are_good(text: str, tmp_path: Path) -> None:
    file = tmp_path / "workflow.yml"
    file.write_text(text, encoding="utf-8")
    linter = Path(sys.executable).with_name("actionlint")
    done = subprocess.run([linter, "-no-color", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (given,) = [
        step["with"]
        for work in yaml.safe_load(text)["jobs"].values()
        for step in work["steps"]
        if step.get("uses", "").startswith("org/tbh-action")
    ]
    call = read_call(_variables(given))
    assert call.command in file.read_text(encoding="utf-8").splitlines()[0]
    assert any("weekly" in word for word in call.arguments)


def _variables(given: dict[str, Any]) -> dict[str, str]:
    """The action's environment for these inputs, the expression for the name filled in."""
    texts = {name: re.sub(r"\$\{\{.*?\}\}", "weekly-2026-36", str(given[name])) for name in given}
    return {
        variable(name): text for name, text in texts.items() if name == "command" or name not in OWN
    }
