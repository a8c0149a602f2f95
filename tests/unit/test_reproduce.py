from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tbh_action.commands.reproduce import reproduce_command
from tbh_action.commands.run_options import spec_options
from tbh_action.controller.state import RunState
from tbh_action.errors import SpecError
from tbh_action.harbor.tasks import TaskList
from tbh_action.publishing.provenance import collect
from tbh_action.publishing.reproduce import argv_of, options_of, pinned_spec, reproduction
from tbh_action.resolve import resolve
from tbh_action.spec import RunSpec

COMMIT = "c" * 40
SAMPLE = json.loads(
    (Path(__file__).parents[1] / "data" / "results-sample.json").read_text(encoding="utf-8")
)


def results_of(spec: RunSpec, commit: str | None = COMMIT) -> dict[str, Any]:
    state = RunState(run_id="r", started_at="2026-01-01T00:00:00.000Z", benchmark_commit=commit)
    found = collect(spec=spec, tasks=TaskList(tasks=()), state=state, versions={"harbor": "0.26.0"})
    return {"run": {"name": "nightly"}, "provenance": json.loads(json.dumps(found))}


def parsed(argv: tuple[str, ...]) -> RunSpec:
    """What `tbh run` itself makes of the printed command."""
    import click

    caught: list[RunSpec] = []

    @click.command()
    @spec_options
    def probe(**options: Any) -> None:
        caught.append(resolve(options))

    result = CliRunner().invoke(probe, list(argv[2:]), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return caught[0]


def meaning(spec: RunSpec) -> dict[str, Any]:
    document = spec.model_dump(mode="json")
    document["benchmark"].pop("name")
    return document


QUESTIONS: dict[str, dict[str, Any]] = {
    "seed": {"recipe": "qwen3.8-27b-fp8"},
    "flags": {
        "recipe": "qwen3-8b",
        "benchmark": "terminal-bench-3.0",
        "include_task": ("*",),
        "exclude_task": ("a b", "c'd"),
        "n_tasks": 5,
        "n_attempts": 2,
        "n_concurrent": 4,
        "agent_timeout_multiplier": 1.5,
        "max_agent_time": 5400.0,
        "ak": ("reasoning_effort=high", 'version="3"', "max_turns=7"),
        "ek": ("flavor=cpu-basic",),
        "flavor": "h200",
        "namespace": "acme",
        "server_timeout": 7200.0,
        "mount_model": True,
        "model_revision": "v2",
    },
    "endpoint": {"model": "m", "endpoint": "http://127.0.0.1:9/v1", "benchmark_revision": "v1"},
    "folder": {"recipe": "gpt-oss-120b", "path": "/tasks", "agent": "oracle", "env": "docker"},
    "registry": {"recipe": "qwen3-8b", "dataset": "terminal-bench/terminal-bench-2-1"},
}


@pytest.mark.parametrize("options", QUESTIONS.values(), ids=QUESTIONS)
def test_reproduction__the_printed_command_asks_the_same(
    options: dict[str, Any], tmp_path: Path
) -> None:
    spec = resolve(options)
    results = results_of(spec)
    found = reproduction(results, tmp_path)
    assert found.files == {}
    assert meaning(parsed(found.run)) == meaning(pinned_spec(results))


def test_reproduction__a_changed_server_becomes_a_recipe_file(tmp_path: Path) -> None:
    spec = resolve({"recipe": "qwen3-8b"})
    assert spec.server is not None
    command = (*spec.server.command, "--seed", "7", "--weird", 'a "quoted" \\ value')
    server = spec.server.model_copy(update={"command": command, "env": {"A": "b"}})
    agent = spec.agent.model_copy(update={"kwargs": {}})
    spec = spec.model_copy(update={"server": server, "agent": agent})
    results = results_of(spec)
    found = reproduction(results, tmp_path)
    assert {path.name for path in found.files} == {"model.toml"}
    for path, text in found.files.items():
        path.write_text(text, encoding="utf-8")
    assert meaning(parsed(found.run)) == meaning(pinned_spec(results))


def test_options_of__are_the_fewest() -> None:
    spec = resolve({"recipe": "qwen3.8-27b-fp8"})
    options, files = options_of(spec, Path("unused"))
    assert argv_of(options) == ("tbh", "run", "--recipe", "qwen3.8-27b-fp8")
    assert files == {}


def test_reproduction__pins_the_commit_and_says_what_is_not_pinned(tmp_path: Path) -> None:
    found = reproduction(results_of(resolve({"recipe": "qwen3.8-27b-fp8"})), tmp_path)
    assert found.run[-2:] == ("--benchmark-revision", COMMIT)
    assert any("may be another one today" in note for note in found.notes)
    assert any("revision was not pinned" in note for note in found.notes)


def test_reproduction__by_hand_is_the_seeds_command(tmp_path: Path) -> None:
    found = reproduction(results_of(resolve({"recipe": "qwen3.8-27b-fp8"})), tmp_path)
    assert found.server is not None
    server, harbor = shlex.split(found.server), shlex.split(found.harbor)
    assert server[:5] == ["hf", "jobs", "run", "--flavor", "h200"]
    assert server[-3:] == ["extra_buffer_lazy", "--mamba-ssm-dtype", "float32"]
    pairs = list(pairwise(harbor))
    for pair in (
        ("--ak", "api_base=https://<job_id>--30000.hf.jobs/v1"),
        ("--ak", "reasoning_effort=low"),
        ("--ek", "flavor=cpu-upgrade"),
        ("--env", "hf-sandbox"),
        ("--agent-timeout-multiplier", "4"),
        ("--n-concurrent", "3"),
    ):
        assert pair in pairs
    assert not any("session_id_headers" in word for word in harbor)


@pytest.mark.parametrize("provenance", [{}, None, {"spec": []}, {"spec": {"model": 1}}])
def test_reproduction__results_without_a_spec(provenance: Any, tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        reproduction({"run": {"name": "x"}, "provenance": provenance}, tmp_path)


def test_reproduce_command__prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = resolve({"recipe": "qwen3-8b", "benchmark": "terminal-bench-2.1"})
    assert spec.server is not None
    spec = spec.model_copy(
        update={"server": spec.server.model_copy(update={"image": "own/server:1"})}
    )
    document = SAMPLE | results_of(spec) | {"run": SAMPLE["run"] | {"name": "nightly"}}
    (tmp_path / "results.json").write_text(json.dumps(document), encoding="utf-8")
    result = CliRunner().invoke(reproduce_command, ["results.json"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "tbh run --recipe reproduce-nightly/model.toml" in result.output
    assert "own/server:1" in (tmp_path / "reproduce-nightly" / "model.toml").read_text("utf-8")
    assert "hf jobs run" in result.output


def test_reproduce_command__counted_without_a_spec(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(SAMPLE), encoding="utf-8")
    result = CliRunner().invoke(reproduce_command, [str(path)])
    assert result.exit_code == 2
    assert "do not say what was asked" in result.output
