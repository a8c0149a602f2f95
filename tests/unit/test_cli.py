"""The command line: quick, lazy, and the same for every command."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tbh_action import __version__
from tbh_action.cli import COMMANDS, main

HEAVY = ("harbor", "litellm", "huggingface_hub", "httpx", "pydantic", "jinja2", "rich", "uvicorn")
CASES = Path(__file__).parents[1] / "cases" / "jobs"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(*arguments: str) -> tuple[set[str], str]:
    """The top-level modules that `tbh ARGUMENTS` imports in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tbh_action", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    return names, done.stdout


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help__imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    names, said = loaded(*arguments)
    assert "click" in names, "the list is of what it seems to be"
    assert names.isdisjoint({*HEAVY, "asyncio"})
    assert said


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_score__imports_neither_harbor_nor_a_client(arguments: tuple[str, ...]) -> None:
    names, said = loaded("score", str(CASES / "seed-final"), *arguments)
    assert names.isdisjoint({"harbor", "litellm", "huggingface_hub", "httpx", "uvicorn"})
    assert "53" in said


def test_help__is_there_in_an_instant() -> None:
    best = 9.0
    for _ in range(5):
        started = time.monotonic()
        subprocess.run([sys.executable, "-m", "tbh_action", "--help"], capture_output=True)
        best = min(best, time.monotonic() - started)
    assert best < 0.3


def test_help__lists_every_command_with_its_words() -> None:
    said = CliRunner().invoke(main, ["--help"]).output
    for name in COMMANDS:
        assert f"\n  {name} " in said


@pytest.mark.parametrize("name", COMMANDS)
def test_command__help_works(name: str) -> None:
    done = CliRunner().invoke(main, [name, "--help"])
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: main {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_command__every_option_has_help(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{name} {param.opts}"


def test_commands__every_module_is_listed() -> None:
    folder = Path(importlib.import_module("tbh_action.commands").__path__[0])
    found = set()
    for path in folder.glob("*.py"):
        module = importlib.import_module(f"tbh_action.commands.{path.stem}")
        if hasattr(module, f"{path.stem}_command"):
            found.add(path.stem.replace("_", "-"))
    assert found == set(COMMANDS)


def test_unknown_command__is_a_usage_error() -> None:
    done = CliRunner().invoke(main, ["rnu"])
    assert done.exit_code == 2
    assert "No such command 'rnu'" in done.output


def test_version__is_the_packages() -> None:
    assert __version__ in CliRunner().invoke(main, ["--version"]).output


def test_module__is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tbh_action", "rnu"],
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert done.returncode == 2
    assert done.stderr == "Error: No such command 'rnu'. See `tbh --help`.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--bogus"], "No such option '--bogus'"),
        (["--bogus"], "No such option '--bogus'"),
        (["score"], "Missing argument 'DIR'"),
        (["run", "--n-tasks", "x"], "Invalid value for '--n-tasks'"),
        (["run", "--max-passes"], "requires an argument"),
        (["report", ".", "--format", "pdf"], "is not one of"),
    ],
)
def test_main__wrong_usage_is_one_line(words: list[str], said: str) -> None:
    done = CliRunner().invoke(main, words, prog_name="tbh")
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.rstrip().endswith("--help`.")
