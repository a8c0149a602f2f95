"""What a result rests on: everything that is needed to repeat the run, as one plain value.

Plain values stand at the top, where reports show them line by line; what only machines read is
nested below.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from tbh_action import recipes
from tbh_action.harbor.documents import UnreadableError
from tbh_action.harbor.lock import JobLock, read_lock
from tbh_action.server.launch import launch_command

if TYPE_CHECKING:
    from tbh_action.controller.state import RunState
    from tbh_action.harbor.tasks import TaskInfo, TaskList
    from tbh_action.rundir import RunDir
    from tbh_action.server.hf_job import PaidJob
    from tbh_action.spec import RunSpec

_PACKAGES: Final = {
    "tbh_action": "tbh-action",
    "harbor": "harbor",
    "huggingface_hub": "huggingface_hub",
    "litellm": "litellm",
}
_JOB_KEYS: Final = (
    "job_id", "namespace", "flavor", "stage", "created_at", "started_at", "seconds", "timeout",
)  # fmt: skip
_CI_VARIABLES: Final = {
    "workflow": "GITHUB_WORKFLOW_REF",
    "event": "GITHUB_EVENT_NAME",
    "ref": "GITHUB_REF",
    "job": "GITHUB_JOB",
    "attempt": "GITHUB_RUN_ATTEMPT",
    "actor": "GITHUB_ACTOR",
    "runner": "RUNNER_ENVIRONMENT",
}


def collect(
    *,
    spec: RunSpec,
    tasks: TaskList,
    state: RunState,
    lock: JobLock | None = None,
    versions: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    shard: str | None = None,
    recipe: str | None = None,
) -> dict[str, Any]:
    """The `provenance` of results.json. Pure; `of_run` gathers its arguments.

    `lock`: Harbor's lock.json; it names Harbor's own commit, and the digests of local tasks.
    `recipe`: the shipped recipe that serves the model like this run did.
    """
    harbor = lock.harbor if lock else {}
    return {
        **(versions or {}),
        **ci_run(environ or {}),
        "harbor_commit": harbor.get("git_commit_hash"),
        "recipe": recipe,
        "server_image": spec.server.image if spec.server else None,
        "server_image_digest": _digest(spec),
        "server_flavor": spec.server.flavor if spec.server else None,
        "sandbox_flavor": spec.environment.flavor
        if spec.environment.type == "hf-sandbox"
        else None,
        "shard": shard,
        "spec": spec.model_dump(mode="json"),
        "server_command": launch_command(spec.server, spec.model) if spec.server else None,
        "server_jobs": [_job(job) for job in state.servers],
        "sandboxes": dict(Counter(job.flavor for job in state.sandboxes)),
        "usd_per_minute": _prices(spec, state),
        "benchmark_commit": state.benchmark_commit,
        "context_length": state.context_length or spec.model.context_length,
        "tasks": _tasks(tasks.tasks, lock.tasks if lock else ()),
        "tasks_left_out": _left_out(spec, tasks),
    }


def of_run(
    run_dir: RunDir, spec: RunSpec, state: RunState, tasks: TaskList, shard: str | None = None
) -> dict[str, Any]:
    """The provenance of the run in `run_dir`, of this process and of its CI."""
    try:
        lock = read_lock(run_dir.harbor_job / "lock.json")
    except UnreadableError:
        lock = None
    return collect(
        spec=spec,
        tasks=tasks,
        state=state,
        lock=lock,
        versions=installed_versions(),
        environ=os.environ,
        shard=shard,
        recipe=shipped_recipe(spec),
    )


def shipped_recipe(spec: RunSpec) -> str | None:
    """The name of the recipe of ours that serves the model in the same way, if one does."""
    name = recipes.for_model(spec.model.name)
    if name is None or spec.server is None:
        return None
    server = recipes.load("models", name)["server"]
    same = (server["image"], tuple(server["command"])) == (spec.server.image, spec.server.command)
    return name if same else None


def installed_versions() -> dict[str, str]:
    """The versions of what did the work, and of the Python and system under it."""
    found = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name, package in _PACKAGES.items():
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def ci_run(environ: Mapping[str, str]) -> dict[str, Any]:
    """The GitHub Actions run that this is a part of: its address, commit and circumstances."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return {}
    address = "/".join(
        [
            environ.get("GITHUB_SERVER_URL", "https://github.com"),
            environ.get("GITHUB_REPOSITORY", ""),
            "actions/runs",
            environ.get("GITHUB_RUN_ID", ""),
        ]
    )
    known = {key: environ[name] for key, name in _CI_VARIABLES.items() if environ.get(name)}
    return {"ci_run": address, "commit": environ.get("GITHUB_SHA"), "ci": known}


def _digest(spec: RunSpec) -> str | None:
    """The image's digest where the recipe pins it: the Hub does not tell what a tag was."""
    return (spec.server.image.partition("@")[2] or None) if spec.server else None


def _job(job: PaidJob) -> dict[str, Any]:
    document = job.to_json()
    return {key: document[key] for key in _JOB_KEYS}


def _prices(spec: RunSpec, state: RunState) -> dict[str, float]:
    used = {job.flavor for job in state.paid}
    if spec.server:
        used.add(spec.server.flavor)
    return {flavor: price for flavor, price in sorted(state.prices.items()) if flavor in used}


def _tasks(
    tasks: Sequence[TaskInfo], lock: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    locked = {str(task.get("name")): task for task in lock}
    rows = {}
    for task in tasks:
        entry = locked.get(task.name) or locked.get(task.name.rpartition("/")[2]) or {}
        rows[task.name] = {
            "digest": task.digest or entry.get("digest"),
            "git_commit": task.git_commit or entry.get("git_commit_id"),
            "docker_image": task.docker_image,
            "agent_timeout": task.agent_timeout,
            "verifier_timeout": task.verifier_timeout,
        }
    return rows


def _left_out(spec: RunSpec, tasks: TaskList) -> dict[str, str]:
    """Which tasks were not asked for, and why, as far as the spec says."""
    reasons = {f"{name}": "Harbor finds the task invalid" for name in tasks.left_out}
    for pattern in spec.benchmark.exclude_task:
        reasons[pattern] = "left out by --exclude-task or the recipe"
    if spec.benchmark.include_task:
        reasons["*"] = f"only {', '.join(spec.benchmark.include_task)}"
    if spec.benchmark.n_tasks:
        reasons["…"] = f"only the first {spec.benchmark.n_tasks}"
    return reasons
