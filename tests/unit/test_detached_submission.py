"""What a detached run is asked, in a form that needs nothing of the machine that asks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import pytest

from tbh_action.commands.run import run_command
from tbh_action.commands.run_options import SPEC_KEYS
from tbh_action.detached.job import MARK, creation_arguments, new_controller
from tbh_action.detached.submission import Submission, differences, submission
from tbh_action.errors import SpecError
from tbh_action.resolve import resolve
from tbh_action.spec import RunSpec

RECIPE = """\
model = "org/own"
context_length = 1000
[server]
engine = "other"
image = "me/server:1"
flavor = "a10g-small"
port = 8000
timeout = "2h"
command = ["serve it", "--name", "org/own"]
"""


def asked(spec: RunSpec, **limits: Any) -> Submission:
    return submission(
        spec,
        name="night",
        namespace="org",
        package="tbh-action==1.2.3",
        limits=limits,
        asked_at="2026-09-01T00:00:00Z",
    )


def understood(arguments: tuple[str, ...]) -> dict[str, Any]:
    """The options as `tbh run` reads them."""
    context: click.Context = run_command.make_context("run", list(arguments))
    return context.params


@pytest.mark.parametrize(
    "options",
    [
        {"recipe": "qwen3.8-27b-fp8", "n_concurrent": 7, "include_task": ("a*", "-b")},
        {"model": "x/y", "endpoint": "https://llm.example.com/v1", "ak": ("k=1", 'j="1"')},
        {"recipe": "own.toml", "max_agent_time": 90.5, "agent_timeout_multiplier": 2.25},
    ],
)
def test_submission__asks_elsewhere_what_was_asked_here(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("TBH_")]:
        monkeypatch.delenv(name)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "own.toml").write_text(RECIPE, encoding="utf-8")
    monkeypatch.chdir(here)
    spec = resolve(options)
    sent = asked(spec, max_cost=12.5, shard="1/3")
    monkeypatch.chdir(there)
    for name, text in sent.files.items():
        (there / name).parent.mkdir(exist_ok=True)
        (there / name).write_text(text, encoding="utf-8")
    read = understood(sent.arguments)
    again = resolve({key: read[key] for key in SPEC_KEYS})
    assert again.result_fields() == spec.result_fields()
    assert (again.n_concurrent, again.namespace) == (spec.n_concurrent, "org")
    assert (read["max_cost"], read["shard"]) == (12.5, "1/3")
    assert Submission.from_json(sent.to_json()) == sent


def test_submission__folder_of_this_machine_is_refused(tmp_path: Path) -> None:
    spec = resolve({"recipe": "qwen3.8-27b-fp8", "path": str(tmp_path)})
    with pytest.raises(SpecError, match="cannot see the folder"):
        asked(spec)


def test_differences__only_what_decides_the_result() -> None:
    base = {"recipe": "qwen3.8-27b-fp8"}
    one = asked(resolve(base))
    assert differences(one, asked(resolve(base | {"n_concurrent": 9}), max_cost=1.0)) == []
    assert differences(one, asked(resolve(base | {"n_attempts": 2}))) == ["n_attempts"]
    assert differences(one, asked(resolve(base), shard="1/2")) == ["shard"]


def test_from_json__another_version() -> None:
    with pytest.raises(SpecError, match="another version"):
        Submission.from_json(
            asked(resolve({"recipe": "qwen3.8-27b-fp8"})).to_json() | {"version": 2}
        )


def test_creation_arguments__words_never_meet_the_shell() -> None:
    spec = resolve({"recipe": "qwen3.8-27b-fp8"})
    sent = submission(
        spec,
        name="night",
        namespace="org",
        package="git+https://x/y@abc; rm -rf /",
        limits={},
        asked_at="",
    )
    job = new_controller("org", "cpu-basic", 7200.0)
    arguments = creation_arguments(sent, job, sync_every=600.0)
    shell, flag, script, *words = arguments["command"]
    assert (shell, flag) == ("bash", "-c")
    assert "rm -rf" not in script
    assert words[:4] == [MARK, "git+https://x/y@abc; rm -rf /", "org", "night"]
    assert words[4:] == ["--sync-every", "600s", "--lifetime", "7200s"]
    assert arguments["timeout"] == 7200
    assert arguments["labels"] == {
        "project": "tbh-action",
        "tbh-run": "night",
        "tbh-kind": "controller",
        "tbh-nonce": job.nonce,
    }
    assert "HF_TOKEN" not in arguments["env"]
