from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tbh_action.cli import COMMANDS as TBH_COMMANDS
from tbh_action.cli import main
from tbh_action.errors import SpecError
from tbh_action.github.inputs import COMMANDS, OWN, TABLE, parse_boolean, read_call, variable
from tbh_action.github.readme_tables import parts, with_tables

ROOT = Path(__file__).resolve().parents[2]
ACTION_TEXT = (ROOT / "action.yml").read_text(encoding="utf-8")
ACTION: dict[str, Any] = yaml.safe_load(ACTION_TEXT)


@pytest.mark.parametrize("text", ["true", "True", "TRUE", " true ", "1"])
def test_parse_boolean__true(text: str) -> None:
    assert parse_boolean(text) is True


@pytest.mark.parametrize("text", ["false", "False", "FALSE", " false\n", "0"])
def test_parse_boolean__false(text: str) -> None:
    assert parse_boolean(text) is False


@pytest.mark.parametrize("text", ["", "yes", "on", "2", "truе", "null"])
def test_parse_boolean__anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        parse_boolean(text)


def test_read_call__empty_inputs_are_not_given() -> None:
    env = {variable(name): " \n" for name in TABLE}
    call = read_call(env)
    assert (call.command, call.arguments) == ("run", ())


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("False", "--stop-server"),
        ("FALSE", "--stop-server"),
        ("0", "--stop-server"),
        (" true ", "--keep-server"),
    ],
)
def test_read_call__booleans_become_one_of_two_flags(text: str, flag: str) -> None:
    assert read_call({"TBH_KEEP_SERVER": text}).arguments == (flag,)


def test_read_call__several_lines_become_several_options() -> None:
    env = {"TBH_INCLUDE_TASK": "fix-git\n\n  a b  \n", "TBH_AK": 'x={"a": 1}', "TBH_N_TASKS": " 3 "}
    assert read_call(env).arguments == (
        "--include-task=fix-git",
        "--include-task=a b",
        "--n-tasks=3",
        '--ak=x={"a": 1}',
    )


def test_read_call__a_value_that_looks_like_an_option_stays_a_value() -> None:
    assert read_call({"TBH_MODEL": "--dry-run"}).arguments == ("--model=--dry-run",)


def test_read_call__arguments_come_after_two_dashes(tmp_path: Path) -> None:
    for name in ("shard-2", "shard-1"):
        (tmp_path / name).mkdir()
    env = {"TBH_COMMAND": "merge", "TBH_RUNS": f"{tmp_path}/shard-*", "TBH_FAIL_ON": "never"}
    assert read_call(env).arguments == (
        "--fail-on=never",
        "--",
        f"{tmp_path}/shard-1",
        f"{tmp_path}/shard-2",
    )
    compare = {"TBH_COMMAND": "compare", "TBH_RUN_DIR": "new", "TBH_BASELINE": "old"}
    assert read_call(compare).arguments == ("--", "new", "old")


def test_read_call__every_problem_is_named_at_once_by_its_input() -> None:
    env = {
        "TBH_N_CONCURRENT": "-3",
        "TBH_ALPHA": "nan",
        "TBH_TIME_BUDGET": "5 lightyears",
        "TBH_COMPARE_ANYWAY": "maybe",
        "TBH_RECIPE": "a\nb",
        "TBH_STORE": "x",
    }
    with pytest.raises(SpecError) as caught:
        read_call(env)
    for name in ("n-concurrent", "alpha", "time-budget", "compare-anyway", "recipe", "store"):
        assert f"input `{name}`:" in caught.value.message


@pytest.mark.parametrize("text", ["1_000", "inf", "1e999", "٣", "0x10", "3,5"])
def test_read_call__numbers_are_plain(text: str) -> None:
    with pytest.raises(SpecError, match="`max-cost`"):
        read_call({"TBH_MAX_COST": text})


def test_read_call__an_unknown_command_lists_the_known_ones() -> None:
    with pytest.raises(SpecError, match="'fly' is none of run, resume"):
        read_call({"TBH_COMMAND": "fly"})


def test_read_call__the_state_of_a_comment_is_a_flag() -> None:
    env = {"TBH_COMMAND": "comment", "TBH_COMMENT_STATE": "in-progress"}
    assert read_call(env).arguments == ("--in-progress",)
    assert read_call(env | {"TBH_COMMENT_STATE": "result"}).arguments == ()
    with pytest.raises(SpecError, match="`comment-state`"):
        read_call(env | {"TBH_COMMENT_STATE": "--delete"})


# --- action.yml, the table, the commands and the README say the same --------------------------


def _command(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


@pytest.mark.parametrize("command", COMMANDS)
def test_table__each_option_exists_and_each_argument_has_a_place(command: str) -> None:
    assert command in TBH_COMMANDS
    parameters = _command(command).params
    flags = {flag for item in parameters for flag in (*item.opts, *item.secondary_opts)}
    example = {"boolean": "true", "whole": "1", "number": "0.5", "duration": "1h", "paths": "/"}
    for name, spec in TABLE.items():
        if command not in spec.commands:
            continue
        value = "finish" if name == "comment-state" else example.get(spec.kind, "x")
        env = {"TBH_COMMAND": command, variable(name): value}
        for option in read_call(env).arguments:
            assert option.split("=")[0] in flags, f"{command} has no {option}"
        if spec.off:
            off = read_call(env | {variable(name): "false"}).arguments
            assert set(off) <= flags
    positional = [item for item in parameters if isinstance(item, click.Argument)]
    given = [name for name, spec in TABLE.items() if command in spec.arguments_of]
    assert bool(positional) == bool(given)
    assert len(given) == len(positional)


def test_action__declares_what_the_table_has_and_uses_what_it_declares() -> None:
    declared = set(ACTION["inputs"])
    assert declared == {*TABLE, *OWN}
    used = set(re.findall(r"inputs\.([a-z0-9-]+)", ACTION_TEXT.split("\nruns:")[1]))
    assert used == declared
    (run,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "tbh"]
    for name in declared - {"hf-token", "endpoint-key", "github-token"}:
        assert run["env"][variable(name)] == f"${{{{ inputs.{name} }}}}"


def test_action__no_expression_stands_in_a_script_and_every_script_is_exec() -> None:
    for step in ACTION["runs"]["steps"]:
        if "run" in step:
            assert "${{" not in step["run"]
            assert step["run"].startswith("exec ")
            assert step["shell"] == "bash"


def test_action__only_the_command_and_the_own_token_have_a_default() -> None:
    defaults = {name: item["default"] for name, item in ACTION["inputs"].items()}
    assert {name: value for name, value in defaults.items() if value} == {
        "command": "run",
        "github-token": "${{ github.token }}",
    }


@pytest.mark.parametrize("name", sorted(ACTION["inputs"]))
def test_action__each_input_says_type_default_and_example(name: str) -> None:
    part = parts(ACTION["inputs"][name]["description"])
    kind = {**{key: spec.kind for key, spec in TABLE.items()}}.get(name, "text")
    allowed = {
        "text": {"text", "path", "URL", "I/N", "secret"},
        "lines": {"lines"},
        "paths": {"lines"},
        "boolean": {"boolean"},
        "whole": {"whole number"},
        "number": {"number"},
        "duration": {"duration"},
    }
    assert part["type"] in allowed[kind]
    assert part["text"].endswith(".")
    assert (kind in ("whole", "number")) == bool(part["unit"])


def test_action__third_party_actions_are_pinned_by_commit_with_their_version() -> None:
    files = [ROOT / "action.yml", *(ROOT / ".github").rglob("*.yml")]
    found = [line for file in files for line in re.findall(r"uses: .*", file.read_text("utf-8"))]
    assert found
    for line in found:
        local = line.startswith(("uses: ./", "uses: $/"))
        assert local or re.fullmatch(r"uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_readme__tables_are_those_of_action_yml() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "<!-- inputs -->" in readme
    assert "<!-- outputs -->" in readme
    assert with_tables(readme, ACTION_TEXT) == readme, "python -m tbh_action.github.readme_tables"
