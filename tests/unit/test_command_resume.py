"""`tbh resume`: what may be changed, and how a foreign job becomes a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from specs import seed, tasks

from tbh_action.cli import main
from tbh_action.commands import execute as execute_module
from tbh_action.controller.spec_file import read_asked, write_asked
from tbh_action.policy.shard import Shard
from tbh_action.rundir import RunDir
from tbh_action.spec import RunSpec


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunSpec, Path, Any]]:
    """What `resume` hands on; nothing is executed."""
    calls: list[tuple[RunSpec, Path, Any]] = []

    def taken(spec: RunSpec, root: Path, options: dict[str, Any]) -> int:
        calls.append((spec, root, options))
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(execute_module, "execute", taken)
    for name in os.environ:
        if name.startswith("TBH_"):
            monkeypatch.delenv(name)
    return calls


def tbh(*arguments: str, **env: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["resume", *arguments], env=env)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def run_of(root: Path, shard: Shard | None = None, **options: Any) -> None:
    write_asked(RunDir(root), seed(**options), shard, tasks("a", "b"))


def test_resume__a_run_goes_on_as_it_was_asked(tmp_path: Path, called: list[Any]) -> None:
    run_of(tmp_path / "r")
    assert tbh("r") == (0, "")
    ((spec, root, options),) = called
    assert (spec, root, options["shard"]) == (seed(), Path("r"), None)


def test_resume__a_shard_stays_a_shard(tmp_path: Path, called: list[Any]) -> None:
    run_of(tmp_path / "r", Shard(2, 3))
    assert tbh("r")[0] == 0
    assert called[0][2]["shard"] == "2/3"


def test_resume__time_and_money_may_change(tmp_path: Path, called: list[Any]) -> None:
    run_of(tmp_path / "r", n_concurrent=8, min_concurrent=4)
    code, _ = tbh("r", "--n-concurrent", "2", "--max-passes", "9", "--max-cost", "5")
    assert code == 0
    spec, _, options = called[0]
    assert (spec.n_concurrent, spec.min_concurrent, spec.max_passes) == (2, 2, 9)
    assert options["max_cost"] == 5


def test_resume__another_endpoint_for_a_run_that_has_one(tmp_path: Path, called: list[Any]) -> None:
    run_of(tmp_path / "r", endpoint="https://old/v1")
    assert tbh("r", "--endpoint", "https://new/v1")[0] == 0
    assert called[0][0].endpoint == "https://new/v1"


def test_resume__no_endpoint_for_a_run_that_serves_itself(
    tmp_path: Path, called: list[Any]
) -> None:
    run_of(tmp_path / "r")
    code, said = tbh("r", "--endpoint", "https://new/v1")
    assert code == 2
    assert "serves its model itself" in said
    assert called == []


@pytest.mark.parametrize("text", ["", "{", '{"version": 99}'])
def test_resume__a_damaged_run_is_one_line(tmp_path: Path, called: list[Any], text: str) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "spec.json").write_text(text, encoding="utf-8")
    code, said = tbh("r")
    assert (code, said.count("\n")) == (2, 1)
    assert called == []


def foreign(root: Path, **agent: Any) -> Path:
    job = root / "jobs" / "by-hand"
    job.mkdir(parents=True)
    config = {
        "job_name": "by-hand",
        "n_concurrent_trials": 2,
        "environment": {"type": "hf-sandbox", "kwargs": {"flavor": "cpu-basic"}},
        "agents": [{"name": "terminus-2", "model_name": "openai/org/m", "kwargs": {}} | agent],
        "datasets": [{"path": "/tasks"}],
    }
    (job / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return job


def test_resume__a_foreign_job_becomes_a_run(tmp_path: Path, called: list[Any]) -> None:
    foreign(tmp_path)
    code, said = tbh("jobs/by-hand", "--endpoint", "https://h/v1", "--n-concurrent", "4")
    assert code == 0
    assert "the original stays as it is" in said
    spec, root, _ = called[0]
    assert (spec.model.name, spec.endpoint, spec.n_concurrent) == ("org/m", "https://h/v1", 4)
    assert root == Path("runs/by-hand")
    assert (root / "harbor" / "job" / "config.json").exists()
    assert tbh("jobs/by-hand", "--endpoint", "https://h/v1")[1] == "", "copied once only"


def test_resume__its_own_address_is_the_default(tmp_path: Path, called: list[Any]) -> None:
    foreign(tmp_path, kwargs={"api_base": "https://mine/v1"})
    assert tbh("jobs/by-hand", "--run-dir", "r")[0] == 0
    assert called[0][0].endpoint == "https://mine/v1"
    assert "mine" not in (tmp_path / "r/harbor/job/config.json").read_text(encoding="utf-8")


def test_resume__a_recipe_serves_a_foreign_jobs_model(tmp_path: Path, called: list[Any]) -> None:
    dead = {"api_base": "https://dead/v1"}
    foreign(tmp_path, kwargs=dead, model_name="openai/Qwen/Qwen3-8B")
    assert tbh("jobs/by-hand", "--recipe", "qwen3-8b")[0] == 0
    spec = called[0][0]
    assert spec.server is not None
    assert (spec.endpoint, spec.model.name) == (None, "Qwen/Qwen3-8B")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Which server?"),
        (("--endpoint", "host:80"), "write it like https://"),
        (("--recipe", "qwen3-8c"), "Did you mean"),
        (("--recipe", "qwen3-8b"), "serves Qwen/Qwen3-8B, and jobs/by-hand measures org/m"),
        (("--model", "org/x", "--endpoint", "https://h/v1"), "it would be another run"),
        (("--endpoint", "https://h/v1", "--run-dir", "mine"), "holds no run of ours"),
    ],
)
def test_resume__a_foreign_job_with_a_mistake(
    tmp_path: Path, called: list[Any], arguments: tuple[str, ...], words: str
) -> None:
    foreign(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    code, said = tbh("jobs/by-hand", *arguments)
    assert (code, said.count("\n")) == (2, 1), said
    assert words in said
    assert called == []
    assert not (tmp_path / "runs" / "by-hand" / "harbor").exists()


def test_resume__what_is_neither(tmp_path: Path, called: list[Any]) -> None:
    (tmp_path / "x").mkdir()
    code, said = tbh("x")
    assert code == 2
    assert "neither a run of ours (spec.json) nor a Harbor job (config.json)" in said
    assert read_asked(RunDir(tmp_path / "x")) is None
