"""From recipes and options to one spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tbh_action.errors import SpecError
from tbh_action.resolve import resolve

SEED = "qwen3.8-27b-fp8"


def test_resolve__the_seeds_server_word_for_word() -> None:
    spec = resolve({"recipe": SEED})
    assert spec.server is not None
    assert spec.model.name == "Qwen/Qwen3.8-27B-FP8"
    assert spec.server.image == "lmsysorg/sglang:latest"
    assert spec.server.flavor == "h200"
    assert spec.server.port == 30000
    assert spec.server.timeout == 4 * 3600
    assert " ".join(spec.server.command) == (
        "sglang serve --trust-remote-code --model-path Qwen/Qwen3.8-27B-FP8 "
        "--kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.85 --attention-backend flashinfer "
        "--chunked-prefill-size 32768 --max-prefill-tokens 32768 --reasoning-parser qwen3 "
        "--tool-call-parser qwen3_coder --mamba-full-memory-ratio 3.67 --host 0.0.0.0 "
        "--port 30000 --mamba-radix-cache-strategy extra_buffer_lazy --mamba-ssm-dtype float32"
    )


def test_resolve__the_seeds_full_run() -> None:
    spec = resolve({"recipe": SEED})
    assert spec.benchmark.repo == (
        "https://huggingface.co/datasets/harborframework/terminal-bench-2.1"
    )
    assert spec.benchmark.include_task == ()
    assert spec.agent_timeout_multiplier == 4
    assert spec.n_concurrent == 3
    assert (spec.agent.name, spec.agent.kwargs) == ("terminus-2", {"reasoning_effort": "low"})
    assert (spec.environment.type, spec.environment.kwargs) == (
        "hf-sandbox",
        {"flavor": "cpu-upgrade"},
    )


def test_resolve__the_seeds_smoke_test() -> None:
    spec = resolve({"recipe": SEED, "benchmark": "terminal-bench-3.0"})
    assert spec.benchmark.repo == (
        "https://huggingface.co/datasets/harborframework/terminal-bench-3.0"
    )
    assert spec.benchmark.include_task == ("atrx-vep-crispr",)
    assert (spec.n_concurrent, spec.agent_timeout_multiplier) == (1, 1)


def test_resolve__a_models_name_finds_its_recipe() -> None:
    assert resolve({"model": "Qwen/Qwen3.8-27B-FP8"}) == resolve({"recipe": SEED})


def test_resolve__none_and_empty_are_not_given() -> None:
    nothing = {"model": None, "include_task": (), "ak": (), "flavor": None, "n_tasks": None}
    assert resolve({"recipe": SEED} | nothing) == resolve({"recipe": SEED})


@pytest.mark.parametrize(
    ("options", "place", "value"),
    [
        ({"flavor": "a100-large"}, "server.flavor", "a100-large"),
        ({"server_timeout": 60.0}, "server.timeout", 60),
        ({"schedule_timeout": 60.0}, "server.schedule_timeout", 60),
        ({"load_timeout": 60.0}, "server.load_timeout", 60),
        ({"replicas": 2}, "server.replicas", 2),
        ({"mount_model": True}, "server.mount_model", True),
        ({"model_revision": "abc"}, "model.revision", "abc"),
        ({"benchmark_revision": "abc"}, "benchmark.revision", "abc"),
        ({"include_task": ("a*", "b")}, "benchmark.include_task", ["a*", "b"]),
        ({"exclude_task": ("c",)}, "benchmark.exclude_task", ["c"]),
        ({"n_tasks": 5}, "benchmark.n_tasks", 5),
        ({"n_attempts": 5}, "n_attempts", 5),
        ({"n_concurrent": 8}, "n_concurrent", 8),
        ({"max_passes": 1}, "max_passes", 1),
        ({"agent_timeout_multiplier": 2.0}, "agent_timeout_multiplier", 2),
        ({"max_agent_time": 60.0}, "agent.max_time", 60),
        ({"max_call": 60.0}, "max_call", 60),
        ({"namespace": "org"}, "namespace", "org"),
        ({"ak": ("temperature=0.6",)}, "agent.kwargs.temperature", 0.6),
        ({"ak": ("reasoning_effort=high",)}, "agent.kwargs.reasoning_effort", "high"),
        ({"ek": ("flavor=cpu-basic",)}, "environment.kwargs.flavor", "cpu-basic"),
        ({"env": "docker"}, "environment.type", "docker"),
        ({"agent": "claude-code"}, "agent.name", "claude-code"),
    ],
)
def test_resolve__options_win_over_recipes(
    options: dict[str, Any], place: str, value: object
) -> None:
    found: Any = resolve({"recipe": SEED} | options).model_dump(mode="json")
    for key in place.split("."):
        found = found[key]
    assert found == value


def test_resolve__a_flag_can_take_back_what_a_recipe_mounts(tmp_path: Path) -> None:
    recipe = written(tmp_path, mount="mount_model = true")
    assert mounted(resolve({"recipe": recipe, "path": "."})) is True
    assert mounted(resolve({"recipe": recipe, "path": ".", "mount_model": False})) is False


def mounted(spec: Any) -> bool:
    assert spec.server is not None
    return bool(spec.server.mount_model)


def written(folder: Path, *, mount: str = "", top: str = "", tables: str = "") -> str:
    file = folder / "mine.toml"
    file.write_text(
        f'model = "org/mine"\n{top}\n[server]\nimage = "e:1"\nflavor = "h200"\nport = 1\n'
        f'command = ["serve", "org/mine"]\n{mount}\n{tables}\n',
        encoding="utf-8",
    )
    return str(file)


def test_resolve__model_recipe_wins_over_benchmark_recipe(tmp_path: Path) -> None:
    recipe = written(
        tmp_path,
        top="n_concurrent = 7\nagent_timeout_multiplier = 2",
        tables="[agent]\nkwargs = { temperature = 1 }",
    )
    spec = resolve({"recipe": recipe, "benchmark": "terminal-bench-2.1"})
    assert (spec.n_concurrent, spec.agent_timeout_multiplier) == (7, 2)
    assert spec.agent.kwargs == {"reasoning_effort": "low", "temperature": 1}


@pytest.mark.parametrize(
    ("options", "agent", "environment"),
    [
        ({"env": "docker"}, {"reasoning_effort": "low"}, {}),
        ({"env": "docker", "ek": ("memory=4",)}, {"reasoning_effort": "low"}, {"memory": 4}),
        ({"env": "hf-sandbox"}, {"reasoning_effort": "low"}, {"flavor": "cpu-upgrade"}),
        ({"agent": "claude-code"}, {}, {"flavor": "cpu-upgrade"}),
        ({"agent": "terminus-2"}, {"reasoning_effort": "low"}, {"flavor": "cpu-upgrade"}),
    ],
)
def test_resolve__kwargs_belong_to_one_agent_and_environment(
    options: dict[str, Any], agent: dict[str, Any], environment: dict[str, Any]
) -> None:
    spec = resolve({"recipe": SEED} | options)
    assert (spec.agent.kwargs, spec.environment.kwargs) == (agent, environment)


@pytest.mark.parametrize(
    ("items", "kwargs"),
    [
        (("a=1",), {"a": 1}),
        (("a=true", "b=null", "c=[1, 2]"), {"a": True, "b": None, "c": [1, 2]}),
        (('a={"b": 1}',), {"a": {"b": 1}}),
        (("a=low", "b=x=y", "c="), {"a": "low", "b": "x=y", "c": ""}),
        (('a="1"',), {"a": "1"}),
        (("a=1", "a=2"), {"a": 2}),
        ((" a =1",), {"a": 1}),
    ],
)
def test_resolve__kwargs_are_json_where_they_can_be(
    items: tuple[str, ...], kwargs: dict[str, Any]
) -> None:
    asked = {"endpoint": "https://host/v1", "model": "m", "path": ".", "ak": items}
    assert resolve(asked).agent.kwargs == kwargs


def test_resolve__an_endpoint_needs_no_recipe_and_takes_ones_model(tmp_path: Path) -> None:
    bare = resolve({"endpoint": "https://host/v1", "model": "m", "path": str(tmp_path)})
    assert (bare.server, bare.endpoint, bare.model.name) == (None, "https://host/v1", "m")
    recipe = written(tmp_path, top="context_length = 1000")
    named = resolve({"endpoint": "https://host/v1", "recipe": recipe, "path": str(tmp_path)})
    assert (named.server, named.model.name, named.model.context_length) == (None, "org/mine", 1000)
    other = resolve(
        {"endpoint": "https://host/v1", "recipe": recipe, "model": "alias", "path": str(tmp_path)}
    )
    assert other.model.name == "alias", "the endpoint may call it as it likes"


@pytest.mark.parametrize(
    ("sources", "name"),
    [
        ({"repo": "https://hub.example/org/bench/"}, "bench"),
        ({"path": "/some/where/tasks"}, "tasks"),
        ({"dataset": "org/set"}, "set"),
        ({}, "terminal-bench-2.1"),
        ({"benchmark": "terminal-bench-3.0"}, "terminal-bench-3.0"),
    ],
)
def test_resolve__a_benchmark_is_called_by_its_source(sources: dict[str, str], name: str) -> None:
    assert resolve({"recipe": SEED} | sources).benchmark.name == name


def test_resolve__a_source_replaces_the_benchmarks_tasks_and_keeps_no_list_of_them() -> None:
    spec = resolve({"recipe": SEED, "path": "/tasks"})
    assert (spec.benchmark.repo, spec.benchmark.path) == (None, "/tasks")
    assert spec.agent_timeout_multiplier == 1, "nothing of the default benchmark is left"


def test_resolve__paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert resolve({"recipe": SEED, "path": "tasks"}).benchmark.path == str(tmp_path / "tasks")
    assert resolve({"recipe": SEED, "path": "~/tasks"}).benchmark.path == "/home/me/tasks"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Which model?"),
        ({"model": "org/none"}, "no recipe that serves org/none"),
        ({"recipe": "qwen3.8"}, "no model recipe 'qwen3.8'"),
        ({"recipe": "qwen3.8-27b-fp"}, "Did you mean 'qwen3.8-27b-fp8'?"),
        ({"recipe": "nope.toml"}, "Cannot read the recipe nope.toml"),
        ({"recipe": SEED, "benchmark": "terminal-bench-2.0"}, "Did you mean 'terminal-bench-"),
        ({"recipe": SEED, "model": "org/other"}, "serves Qwen/Qwen3.8-27B-FP8, not org/other"),
        ({"endpoint": "https://host/v1"}, "Which model?"),
        ({"recipe": SEED, "repo": "https://a/b", "path": "c"}, "exactly one source"),
        ({"recipe": SEED, "ak": ("x",)}, "--ak takes KEY=VALUE, not 'x'"),
        ({"recipe": SEED, "ak": ("=x",)}, "--ak takes KEY=VALUE"),
        ({"recipe": SEED, "ek": ("",)}, "--ek takes KEY=VALUE"),
        ({"recipe": SEED, "ak": ("api_base=https://h/v1",)}, "--endpoint"),
        ({"recipe": SEED, "ak": ("api_key=hf_secret",)}, "OPENAI_API_KEY"),
        ({"recipe": SEED, "ak": ("t=NaN",)}, "only JSON values"),
        ({"recipe": SEED, "ak": ("t=1e999",)}, "only JSON values"),
        ({"recipe": SEED, "n_concurrent": 1, "min_concurrent": 2}, "min_concurrent is above"),
    ],
)
def test_resolve__refuses_in_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(options)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert "hf_secret" not in caught.value.message


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"top": "n_concurent = 3"}, "unknown key 'n_concurent'; did you mean 'n_concurrent'?"),
        ({"top": "repo = 'https://a/b'"}, "unknown key 'repo'"),
        ({"top": "agent = 'terminus-2'"}, "agent and its kwargs must be tables"),
        ({"tables": "[agent]\nkwargs = 3"}, "agent and its kwargs must be tables"),
        ({"tables": "[agent]\nkwargs = { when = 2026-01-01 }"}, "only JSON values"),
        ({"tables": "[agent]\nnam = 'x'"}, "agent.nam"),
        ({"mount": "timeout = [4]"}, "server.timeout"),
        ({"mount": "imag = 'x'"}, "server.imag"),
        ({"top": "x = "}, "Cannot read the recipe"),
    ],
)
def test_resolve__a_recipe_of_ones_own_with_a_mistake(
    tmp_path: Path, parts: dict[str, str], said: str
) -> None:
    with pytest.raises(SpecError) as caught:
        resolve({"recipe": written(tmp_path, **parts), "benchmark": "terminal-bench-2.1"})
    assert said in caught.value.message
    assert "\n" not in caught.value.message
