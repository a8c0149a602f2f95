"""Harbor's config and command lines: what must hold in each of them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from specs import seed

from tbh_action.harbor import command
from tbh_action.harbor.command import (
    by_hand,
    harbor_environment,
    job_config,
    resume_argv,
    run_argv,
    uses_gateway,
)
from tbh_action.rundir import RunDir
from tbh_action.spec import RunSpec

RUN_DIR = RunDir(Path("/runs/r"))


def agent_of(spec: RunSpec, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = job_config(spec, RUN_DIR, **more)["agents"][0]
    return found


def kwargs_of(spec: RunSpec) -> dict[str, Any]:
    found: dict[str, Any] = job_config(spec, RUN_DIR)["environment"]["kwargs"]
    return found


def dataset_of(spec: RunSpec, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = job_config(spec, RUN_DIR, **more)["datasets"][0]
    return found


def test_job_config__of_the_seed() -> None:
    config = job_config(seed(), RUN_DIR)
    assert config["job_name"] == "job"
    assert config["jobs_dir"] == "/runs/r/harbor"
    assert config["n_attempts"] == 1
    assert config["n_concurrent_trials"] == 3
    assert config["agent_timeout_multiplier"] == 4
    assert config["environment"]["type"] == "hf-sandbox"
    assert config["environment"]["kwargs"]["flavor"] == "cpu-upgrade"
    assert config["agents"][0]["name"] == "terminus-2"
    assert config["agents"][0]["model_name"] == "openai/Qwen/Qwen3.8-27B-FP8"
    assert config["agents"][0]["kwargs"]["reasoning_effort"] == "low"
    assert config["datasets"] == [
        {"repo": "https://huggingface.co/datasets/harborframework/terminal-bench-2.1"}
    ]


@pytest.mark.parametrize("max_call", [60.0, 600.0, 1800.0, 7200.0, 36_000.0])
def test_job_config__the_sandbox_outlives_the_longest_call(max_call: float) -> None:
    spec = seed(max_call=max_call)
    call = agent_of(spec)["kwargs"]["llm_call_kwargs"]["timeout"]
    idle = kwargs_of(spec)["job_timeout"]
    assert max_call < call < idle <= 24 * 3600
    assert isinstance(idle, int)


def test_job_config__harbor_itself_deletes_and_repeats_nothing() -> None:
    assert job_config(seed(), RUN_DIR)["retry"] == {"max_retries": 0}


def test_job_config__broken_infrastructure_is_no_result() -> None:
    policy = job_config(seed(), RUN_DIR)["override_error_policy"]
    for name in ("SandboxError", "ReadTimeout", "RemoteProtocolError", "HfHubHTTPError"):
        assert policy[name]["has_valid_reward"] is False
        assert policy[name]["should_grade"] is False


def test_job_config__the_gateway_learns_whose_call_it_is() -> None:
    assert agent_of(seed())["kwargs"]["session_id_headers"] == ["X-Tbh-Session"]


def test_job_config__what_the_user_chose_stays() -> None:
    spec = seed(
        ak=('session_id_headers=["X-Mine"]', 'llm_call_kwargs={"timeout": 5, "top_p": 1}'),
        ek=("job_timeout=77", "namespace=mine"),
        namespace="org",
    )
    kwargs = agent_of(spec)["kwargs"]
    assert kwargs["session_id_headers"] == ["X-Mine"]
    assert kwargs["llm_call_kwargs"] == {"timeout": 5, "top_p": 1}
    assert (kwargs_of(spec)["job_timeout"], kwargs_of(spec)["namespace"]) == (77, "mine")


def test_job_config__who_pays_for_the_server_pays_for_sandboxes() -> None:
    assert kwargs_of(seed(namespace="org"))["namespace"] == "org"
    assert "namespace" not in kwargs_of(seed())


def test_job_config__other_environments_get_nothing_of_hf_sandbox() -> None:
    assert kwargs_of(seed(env="docker", namespace="org")) == {}


def test_job_config__the_server_is_nowhere_in_it() -> None:
    served = seed(model="Qwen/Qwen3.8-27B-FP8", endpoint="https://secret.example/v1")
    assert "secret.example" not in json.dumps(job_config(served, RUN_DIR))


def test_job_config__agents_in_the_sandbox_get_templates() -> None:
    agent = agent_of(seed(agent="claude-code"))
    assert agent["env"] == {
        "OPENAI_BASE_URL": "${OPENAI_BASE_URL}",
        "OPENAI_API_KEY": "${OPENAI_API_KEY}",
    }
    assert agent["kwargs"] == {}
    assert "env" not in agent_of(seed())
    assert uses_gateway("terminus-2")
    assert not uses_gateway("claude-code")


def test_job_config__model_info_and_cap() -> None:
    info = {"max_input_tokens": 1000}
    assert agent_of(seed(), model_info=info)["kwargs"]["model_info"] == info
    assert "model_info" not in agent_of(seed())["kwargs"]
    assert agent_of(seed(max_agent_time=60.0))["max_timeout_sec"] == 60


@pytest.mark.parametrize(
    ("options", "more", "dataset"),
    [
        ({"repo": "https://h/o/b"}, {}, {"repo": "https://h/o/b"}),
        (
            {"repo": "https://h/o/b", "benchmark_revision": "v1"},
            {},
            {"repo": "https://h/o/b@v1"},
        ),
        (
            {"repo": "https://h/o/b", "benchmark_revision": "v1"},
            {"commit": "c0ffee"},
            {"repo": "https://h/o/b@c0ffee"},
        ),
        ({"path": "/tasks"}, {"commit": "c0ffee"}, {"path": "/tasks"}),
        ({"dataset": "set"}, {}, {"name": "set"}),
        ({"dataset": "set", "benchmark_revision": "2"}, {}, {"name": "set", "version": "2"}),
        ({"dataset": "o/set", "benchmark_revision": "2"}, {}, {"name": "o/set", "ref": "2"}),
        (
            {"path": "/tasks", "include_task": ("org/a*", "b"), "exclude_task": ("org/c",)},
            {},
            {"path": "/tasks", "task_names": ["a*", "b"], "exclude_task_names": ["c"]},
        ),
        (
            {"dataset": "o/set", "include_task": ("org/a*", "b"), "n_tasks": 3},
            {},
            {"name": "o/set", "task_names": ["org/a*", "*/b"], "n_tasks": 3},
        ),
        (
            {"path": "/tasks", "include_task": ("a*",), "n_tasks": 3},
            {"only": ["org/a1", "org/a3"]},
            {"path": "/tasks", "task_names": ["a1", "a3"], "n_tasks": None},
        ),
        (
            {"dataset": "o/set"},
            {"only": ["org/a1"]},
            {"name": "o/set", "task_names": ["org/a1"], "n_tasks": None},
        ),
    ],
)
def test_job_config__the_dataset(
    options: dict[str, Any], more: dict[str, Any], dataset: dict[str, Any]
) -> None:
    assert dataset_of(seed(**options), **more) == dataset


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setenv("HF_TOKEN", "hf_token")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-key")
    return ("hf_token", "sk-key")


def test_argv__no_secret_and_no_address(tokens: tuple[str, ...]) -> None:
    first, later = run_argv(RUN_DIR), resume_argv(RUN_DIR.harbor_job)
    assert first[1:] == ["run", "-c", "/runs/r/harbor-job.json", "--plugin", command.PLUGIN, "-y"]
    assert later[1:] == ["job", "resume", "-p", "/runs/r/harbor/job", "--plugin", command.PLUGIN]
    for secret in (*tokens, "http"):
        assert secret not in " ".join(first + later)


def test_resume_argv__is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "job") in resume_argv(Path("job"))


def environment(**changes: str) -> dict[str, str]:
    values = {
        "base_url": "http://127.0.0.1:1/v1",
        "api_key": "k",
        "control_url": "http://127.0.0.1:1",
        "control_key": "c",
        "run_id": "r--1",
    }
    return harbor_environment(**(values | changes))


def test_harbor_environment__carries_server_and_key() -> None:
    env = environment()
    assert env["OPENAI_BASE_URL"] == "http://127.0.0.1:1/v1"
    assert env["OPENAI_API_KEY"] == "k"
    assert env["TBH_RUN_ID"] == "r--1"
    assert env["PATH"]


@pytest.mark.parametrize(
    ("name", "default"), [("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("HARBOR_TELEMETRY", "0")]
)
def test_harbor_environment__quiet_unless_the_user_says_otherwise(
    name: str, default: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    assert environment()[name] == default
    monkeypatch.setenv(name, "mine")
    assert environment()[name] == "mine"


def test_harbor_environment__nothing_that_would_lead_elsewhere_or_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "https://elsewhere/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere/v1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    env = environment()
    assert "elsewhere" not in str([env.get("OPENAI_API_BASE"), env["OPENAI_BASE_URL"]])
    assert "PYTHONDONTWRITEBYTECODE" not in env


def test_by_hand__can_be_pasted(tokens: tuple[str, ...]) -> None:
    line = by_hand(run_argv(RUN_DIR), api_base="https://x y/v1")
    assert line == (
        "OPENAI_BASE_URL='https://x y/v1' OPENAI_API_KEY=\"$(hf auth token)\" "
        "harbor run -c /runs/r/harbor-job.json -y"
    )
    assert len(shlex.split(line)) == 7
