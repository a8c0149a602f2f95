"""Harbor's job config, its command lines, and the environment that its process gets.

Addresses and secrets travel in the environment only: Harbor records neither, so that a later pass
may have another server, and no file of the job holds a key.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import NotStartedError
from tbh_action.rundir import RunDir
from tbh_action.scoring.failures import error_policy_overrides
from tbh_action.spec import BenchmarkSpec, RunSpec

PLUGIN: Final = "tbh_action.harbor.plugin:TbhPlugin"
SESSION_HEADER: Final = "X-Tbh-Session"
# terminus-2 runs in Harbor's own process, so its model calls can go through loopback; almost
# every other agent lives inside the sandbox and needs the server's public address.
HOST_AGENTS: Final = frozenset({"terminus-2", "oracle", "nop"})
# Harbor and the agents in it have no use for GitHub's token; an old address would win over ours.
_NOT_FOR_HARBOR: Final = ("GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "OPENAI_API_BASE")
_CALL_MARGIN: Final = 60.0
_MAX_IDLE: Final = 24 * 3600


def uses_gateway(agent: str) -> bool:
    """Whether the agent can reach our loopback gateway."""
    return agent in HOST_AGENTS


def job_config(
    spec: RunSpec,
    run_dir: RunDir,
    *,
    commit: str | None = None,
    model_info: dict[str, Any] | None = None,
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The JobConfig for `harbor run -c`. It is frozen by the first pass: Harbor refuses to resume
    a job whose config changed, so nothing in it may depend on the server or the machine.

    `only` names the tasks of a shard; None means all that the benchmark's patterns choose.
    """
    return {
        "job_name": run_dir.harbor_job.name,
        "jobs_dir": str(run_dir.harbor_job.parent),
        "n_attempts": spec.n_attempts,
        "n_concurrent_trials": spec.n_concurrent,
        "agent_timeout_multiplier": spec.agent_timeout_multiplier,
        "quiet": True,
        "retry": {"max_retries": 0},
        "override_error_policy": error_policy_overrides(),
        "environment": {"type": spec.environment.type, "kwargs": _environment_kwargs(spec)},
        "agents": [_agent(spec, model_info)],
        "datasets": [_dataset(spec.benchmark, commit) | _only(spec.benchmark, only)],
    }


def _only(benchmark: BenchmarkSpec, names: Sequence[str] | None) -> dict[str, Any]:
    if names is None:
        return {}
    qualified = benchmark.dataset is not None and "/" in benchmark.dataset
    return {
        "task_names": [name if qualified else name.rsplit("/", 1)[-1] for name in names],
        "n_tasks": None,
    }


def _environment_kwargs(spec: RunSpec) -> dict[str, Any]:
    kwargs = dict(spec.environment.kwargs)
    if spec.environment.type == "hf-sandbox":
        # Harbor calls the sandbox's idle timeout `job_timeout` and leaves it at 10 minutes: a
        # model that thinks longer in one turn would lose its sandbox.
        kwargs.setdefault("job_timeout", int(min(spec.max_call * 2 + 600, _MAX_IDLE)))
        if spec.namespace:
            kwargs.setdefault("namespace", spec.namespace)
    return kwargs


def _agent(spec: RunSpec, model_info: dict[str, Any] | None) -> dict[str, Any]:
    kwargs = dict(spec.agent.kwargs)
    if uses_gateway(spec.agent.name):
        kwargs.setdefault("session_id_headers", [SESSION_HEADER])
        kwargs.setdefault("record_terminal_session", False)
        call = dict(kwargs.get("llm_call_kwargs") or {})
        call.setdefault("timeout", int(spec.max_call + _CALL_MARGIN))
        kwargs["llm_call_kwargs"] = call
        if model_info:
            kwargs.setdefault("model_info", model_info)
    agent: dict[str, Any] = {
        "name": spec.agent.name,
        "model_name": f"openai/{spec.model.name}",
        "kwargs": kwargs,
    }
    if not uses_gateway(spec.agent.name):
        # Templates stay templates in every file; Harbor resolves them when it makes the agent.
        agent["env"] = {name: f"${{{name}}}" for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY")}
    if spec.agent.max_time is not None:
        agent["max_timeout_sec"] = spec.agent.max_time
    return agent


def _dataset(benchmark: BenchmarkSpec, commit: str | None) -> dict[str, Any]:
    revision = commit or benchmark.revision
    dataset: dict[str, Any] = {}
    if benchmark.repo:
        dataset["repo"] = f"{benchmark.repo}@{revision}" if revision else benchmark.repo
    elif benchmark.path:
        dataset["path"] = benchmark.path
    else:
        dataset["name"] = benchmark.dataset
        if revision:
            dataset["ref" if "/" in str(benchmark.dataset) else "version"] = revision
    qualified = benchmark.dataset is not None and "/" in benchmark.dataset
    if benchmark.include_task:
        dataset["task_names"] = _patterns(benchmark.include_task, qualified=qualified)
    if benchmark.exclude_task:
        dataset["exclude_task_names"] = _patterns(benchmark.exclude_task, qualified=qualified)
    if benchmark.n_tasks:
        dataset["n_tasks"] = benchmark.n_tasks
    return dataset


def _patterns(patterns: tuple[str, ...], *, qualified: bool) -> list[str]:
    """The user's globs as Harbor matches them: by directory name in a repository or folder, by
    `org/name` in a registry package. Both spellings work for both."""
    result: list[str] = []
    for pattern in patterns:
        if qualified:
            result.append(pattern if "/" in pattern else f"*/{pattern}")
        else:
            result.append(pattern.rsplit("/", 1)[-1])
    return result


def harbor_executable() -> str:
    """Harbor's command, of the environment that tbh runs in, else on PATH."""
    beside = Path(sys.executable).parent / "harbor"
    found = str(beside) if beside.exists() else shutil.which("harbor")
    if found is None:
        raise NotStartedError(
            "The command `harbor` is missing; install it: "
            "pip install 'harbor[hf-sandbox]>=0.26,<0.27'."
        )
    return found


def run_argv(run_dir: RunDir) -> list[str]:
    """The first pass."""
    return [harbor_executable(), "run", "-c", str(run_dir.harbor_config), "--plugin", PLUGIN, "-y"]


def resume_argv(job_dir: Path) -> list[str]:
    """A later pass over what is left in `job_dir` (an absolute path: Harbor stores it as given)."""
    return [harbor_executable(), "job", "resume", "-p", str(job_dir.resolve()), "--plugin", PLUGIN]


def harbor_environment(
    *, base_url: str, api_key: str, control_url: str, control_key: str, run_id: str
) -> dict[str, str]:
    """The environment of Harbor's process: the caller's, and how to reach model and controller."""
    env = dict(os.environ)
    env |= {
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": api_key,
        "TBH_CONTROL_URL": control_url,
        "TBH_CONTROL_KEY": control_key,
        "TBH_RUN_ID": run_id,
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
    }
    for name in _NOT_FOR_HARBOR:
        env.pop(name, None)
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    env.setdefault("HARBOR_TELEMETRY", "0")
    return env


def by_hand(argv: list[str], *, api_base: str = "SERVER/v1") -> str:
    """The same command for a person's shell: the secrets stand as what to put there."""
    shown = ["harbor", *argv[1:]]
    if "--plugin" in shown:
        at = shown.index("--plugin")
        del shown[at : at + 2]
    return (
        f'OPENAI_BASE_URL={shlex.quote(api_base)} OPENAI_API_KEY="$(hf auth token)" '
        f"{shlex.join(shown)}"
    )
