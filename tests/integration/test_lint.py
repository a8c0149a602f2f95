"""The linters of action and workflows. Each suppression stands beside its reason."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTIONS = [ROOT / "action.yml", *sorted((ROOT / ".github/actions").glob("*/action.yml"))]


def clean(*command: str | Path) -> None:
    ended = subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


def test_actionlint__is_clean() -> None:
    clean(BIN / "actionlint")


def test_zizmor__is_clean_at_its_strictest() -> None:
    clean(
        *(BIN / "zizmor", "--offline", "--quiet", "--persona", "pedantic"),
        *("--strict-collection", "--no-progress", *ACTIONS, ROOT / ".github"),
    )


def test_zizmor__each_suppression_has_a_reason_beside_it() -> None:
    for file in [*WORKFLOWS, *ACTIONS]:
        for line in re.findall(r".*zizmor: ignore.*", file.read_text(encoding="utf-8")):
            assert re.search(r"zizmor: ignore\[[a-z-]+\] .{20,}", line), f"{file.name}: {line}"


def test_schemas__of_workflows_actions_and_dependabot() -> None:
    tool = BIN / "check-jsonschema"
    clean(tool, "--builtin-schema", "vendor.github-workflows", *WORKFLOWS)
    clean(tool, "--builtin-schema", "vendor.github-actions", *ACTIONS)
    clean(tool, "--builtin-schema", "vendor.dependabot", ROOT / ".github/dependabot.yml")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck__scripts_are_clean() -> None:
    clean("shellcheck", *sorted((ROOT / "tbh_action/github").glob("*.sh")), ROOT / ".ci/setup")


def test_workflows__permissions_are_given_by_job_and_each_has_its_reason() -> None:
    for file in WORKFLOWS:
        text = file.read_text(encoding="utf-8")
        assert "\npermissions: {}\n" in text, file.name
        for line in re.findall(r"^ +[a-z-]+: (?:read|write)\b.*$", text, re.MULTILINE):
            assert " # " in line, f"{file.name}: {line.strip()}"


def test_workflows__no_expression_stands_in_a_script() -> None:
    for file in [*WORKFLOWS, *ACTIONS]:
        scripts = re.findall(
            r"^( +)run: (?:\|\n((?:\1 +.*\n|\n)+)|(.*)\n)", file.read_text("utf-8"), re.MULTILINE
        )
        assert all("${{" not in block + line for _, block, line in scripts), file.name


@pytest.mark.parametrize("page", ["README.md", "docs/workflows.md", "docs/detached.md"])
def test_actionlint__the_workflows_in_the_documentation_are_clean(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    whole = [block for block in blocks if "\njobs:" in block and "\non:" in block]
    assert whole
    for block in whole:
        ended = subprocess.run(
            [BIN / "actionlint", "-"], input=block, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{block}\n{ended.stdout}{ended.stderr}"
