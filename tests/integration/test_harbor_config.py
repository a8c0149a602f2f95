"""The config that we write is one that the real Harbor takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tbh_action.errors import NotStartedError
from tbh_action.harbor.command import harbor_environment, job_config
from tbh_action.harbor.tasks import TERMINUS_KWARGS, TaskList, resolve_tasks
from tbh_action.loopback.tasks import DEMO_TASKS
from tbh_action.resolve import resolve
from tbh_action.rundir import RunDir

pytestmark = pytest.mark.slow

SEED = {"recipe": "qwen3.8-27b-fp8"}
LOCAL: dict[str, Any] = {**SEED, "path": str(DEMO_TASKS), "include_task": ("hello-*",)}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"benchmark": "terminal-bench-3.0"},
        {"benchmark": "terminal-bench-4.0"},
        {"benchmark_revision": "v1"},
        {"path": "/tasks", "include_task": ("a*",), "exclude_task": ("b",), "n_tasks": 3},
        {"dataset": "org/set", "benchmark_revision": "v1"},
        {"dataset": "set", "benchmark_revision": "2.0"},
        {"agent": "claude-code", "max_agent_time": 60.0},
        {"env": "docker"},
        {"namespace": "org", "max_call": 7200.0, "n_attempts": 5},
    ],
)
@pytest.mark.parametrize("only", [None, ["org/a", "org/b"]])
def test_job_config__is_harbors(options: dict[str, Any], only: list[str] | None) -> None:
    from harbor.models.job.config import JobConfig

    info = {"max_input_tokens": 1, "max_output_tokens": 1}
    spec = resolve(SEED | options)
    written = job_config(spec, RunDir(Path("/r")), commit="c" * 40, model_info=info, only=only)
    config = JobConfig.model_validate_json(json.dumps(written))
    assert config.n_concurrent_trials == spec.n_concurrent
    assert config.agent_timeout_multiplier == spec.agent_timeout_multiplier
    assert config.retry.max_retries == 0
    (agent,) = config.agents
    assert agent.model_name == f"openai/{spec.model.name}"
    # What Harbor writes from it and reads again is the same: a resume is not refused.
    assert JobConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize("agent", ["terminus-2", "claude-code", "codex", "openhands", "oracle"])
def test_job_config__its_options_are_known_to_agent_and_environment(
    agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from harbor.agents.factory import AgentFactory
    from harbor.environments.factory import EnvironmentFactory
    from harbor.models.job.config import JobConfig

    written = job_config(
        resolve(SEED | {"agent": agent}), RunDir(Path("/r")), model_info={"max_input_tokens": 1}
    )
    config = JobConfig.model_validate(written)
    EnvironmentFactory.validate_options(config.environment)
    AgentFactory.get_agent_class_from_config(config.agents[0]).parse_options(
        config.agents[0].kwargs, {}
    )


def test_terminus_kwargs__are_what_terminus_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list that saves the import says nothing that Harbor would not say."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from harbor.agents.factory import AgentFactory
    from harbor.models.trial.config import AgentConfig

    terminus = AgentFactory.get_agent_class_from_config(AgentConfig(name="terminus-2"))
    model = terminus.options_model
    assert model is not None
    assert set(model.model_fields) >= TERMINUS_KWARGS


def asked(tmp_path: Path, **options: Any) -> TaskList:
    config = tmp_path / "question.json"
    spec = resolve(LOCAL | options)
    config.write_text(json.dumps(job_config(spec, RunDir(tmp_path / "r"))), encoding="utf-8")
    env = harbor_environment(base_url="", api_key="", control_url="", control_key="", run_id="")
    return resolve_tasks(config, env)


def test_resolve_tasks__a_local_task_with_all_that_is_needed(tmp_path: Path) -> None:
    (task,) = asked(tmp_path).tasks
    assert task.name == "demo/hello-file"
    assert task.docker_image == "ghcr.io/tbh-demo/hello-file:1"
    assert task.agent_timeout == 120
    assert task.verifier_timeout == 120
    assert task.digest is not None
    assert task.digest.startswith("sha256:")
    assert (task.lfs_pointers, task.compose, task.gpus) == ((), False, 0)


def test_resolve_tasks__other_content_is_another_digest(tmp_path: Path) -> None:
    shutil.copytree(DEMO_TASKS / "hello-file", tmp_path / "tasks" / "hello-file")
    before = asked(tmp_path, path=str(tmp_path / "tasks")).tasks[0].digest
    assert asked(tmp_path, path=str(tmp_path / "tasks")).tasks[0].digest == before
    file = tmp_path / "tasks" / "hello-file" / "instruction.md"
    file.write_text(file.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert asked(tmp_path, path=str(tmp_path / "tasks")).tasks[0].digest != before


def test_resolve_tasks__folders_that_harbor_would_leave_out_silently(tmp_path: Path) -> None:
    for name in ("hello-file", "broken"):
        shutil.copytree(DEMO_TASKS / "hello-file", tmp_path / "tasks" / name)
    (tmp_path / "tasks" / "broken" / "instruction.md").unlink()
    found = asked(tmp_path, path=str(tmp_path / "tasks"), include_task=())
    assert len(found.tasks) == 1
    assert found.left_out == ("broken",)


def test_resolve_tasks__several_runs_of_a_machine_fill_its_cache_at_once(tmp_path: Path) -> None:
    """As shards beside each other do. Each found what another was just replacing."""
    shutil.copytree(DEMO_TASKS, tmp_path / "repo" / "tasks")
    git = ["git", "-C", str(tmp_path / "repo"), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "tasks"]):
        subprocess.run([*git, *words], check=True)
    config = tmp_path / "config.json"
    address = "https://git.invalid/demo/tasks"
    spec = resolve({**SEED, "repo": address})
    config.write_text(json.dumps(job_config(spec, RunDir(tmp_path / "r"))), encoding="utf-8")
    env = harbor_environment(base_url="", api_key="", control_url="", control_key="", run_id="")
    env |= {
        "HOME": str(tmp_path / "home"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path / 'repo'}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
    }
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: resolve_tasks(config, env), range(4)))
    assert len(found[0].tasks) >= 8
    assert all(tasks == found[0] for tasks in found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ek": ("nonsense=1",)}, "Unknown option 'nonsense'"),
        ({"ak": ("nonsense=1",)}, "Unknown option 'nonsense'"),
        ({"agent": "terminus-9"}, "terminus-9 is not valid"),
        ({"env": "dokcer"}, "environment.type 'dokcer'"),
        ({"include_task": ("x-*",)}, "No tasks matched"),
    ],
)
def test_resolve_tasks__what_harbor_would_refuse_later(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(NotStartedError) as caught:
        asked(tmp_path, **options)
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_harbor_executable__is_the_one_beside_us() -> None:
    from tbh_action.harbor.command import harbor_executable

    assert os.access(harbor_executable(), os.X_OK)
