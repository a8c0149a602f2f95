"""A Harbor job that was started by hand, made a run of ours.

The job is copied first: the original stays as it is. In the copy the server's address leaves the
configs, since Harbor refuses to resume a job whose `api_base` changed, and no server lives forever.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import NotStartedError, SpecError
from tbh_action.harbor.documents import UnreadableError, mapping, read_object
from tbh_action.rundir import RunDir, write_json

_LIMIT: Final = 1024**3
_PROVIDERS: Final = ("openai/", "hosted_vllm/")


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignJob:
    """What a job's config says, in the words of our options; `api_base` is where it was served."""

    document: dict[str, Any]
    api_base: str | None


def is_harbor_job(directory: Path) -> bool:
    """Whether `directory` looks like a Harbor job (and not like a run of ours)."""
    return (directory / "config.json").is_file() and not (directory / "spec.json").exists()


def read_foreign(job: Path) -> ForeignJob:
    """The spec that a job's config.json amounts to, without its server.

    Raises:
        SpecError: it cannot be read, or has several agents or datasets.
    """
    try:
        config = read_object(job / "config.json")
    except UnreadableError as error:
        raise SpecError(f"{job} is no Harbor job that can be continued: {error}.") from error
    agents, datasets = _objects(config.get("agents")), _objects(config.get("datasets"))
    if len(agents) != 1 or len(datasets) != 1:
        raise SpecError(
            f"{job} has {len(agents)} agents and {len(datasets)} datasets; tbh continues jobs "
            "with one of each. Use `harbor job resume` for the others."
        )
    agent, dataset = agents[0], datasets[0]
    kwargs = dict(mapping(agent.get("kwargs")))
    api_base = kwargs.pop("api_base", None)
    repo, _, commit = str(dataset.get("repo") or "").partition("@")
    benchmark = {
        "name": Path(str(dataset.get("path") or repo or dataset.get("name"))).name,
        "repo": repo or None,
        "path": dataset.get("path"),
        "dataset": dataset.get("name") if not repo and not dataset.get("path") else None,
        "revision": commit or dataset.get("ref") or dataset.get("version"),
        "include_task": tuple(dataset.get("task_names") or ()),
        "exclude_task": tuple(dataset.get("exclude_task_names") or ()),
        "n_tasks": dataset.get("n_tasks"),
    }
    environment = mapping(config.get("environment"))
    document = {
        "model": {"name": _model(str(agent.get("model_name") or ""))},
        "benchmark": benchmark,
        "agent": {"name": agent.get("name") or "terminus-2", "kwargs": kwargs}
        | ({"max_time": agent["max_timeout_sec"]} if agent.get("max_timeout_sec") else {}),
        "environment": {
            "type": environment.get("type") or "docker",
            "kwargs": dict(mapping(environment.get("kwargs"))),
        },
        "n_attempts": config.get("n_attempts") or 1,
        "n_concurrent": config.get("n_concurrent_trials") or 4,
        "agent_timeout_multiplier": config.get("agent_timeout_multiplier")
        or config.get("timeout_multiplier")
        or 1.0,
    }
    return ForeignJob(document=document, api_base=api_base if isinstance(api_base, str) else None)


def copy_job(job: Path, run_dir: RunDir) -> None:
    """Copies a job into the run, whole, and takes the server's address out of the copy.

    Raises:
        SpecError: the copy is not possible (disk full, unreadable files).
    """
    new = run_dir.harbor_job.with_name("job.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        shutil.copytree(job, new, symlinks=True)
        for path in (new / "config.json", new / "lock.json", *new.glob("*/config.json")):
            _forget_address(path)
        new.replace(run_dir.harbor_job)
    except OSError as error:
        shutil.rmtree(new, ignore_errors=True)
        raise SpecError(f"Cannot copy the job {job} to {run_dir.root}: {error}.") from error


def set_concurrency(job: Path, n_concurrent: int) -> bool:
    """Writes the number of concurrent trials into a job's config and lock, which Harbor compares.
    True when it was another one before.

    Raises:
        NotStartedError: one of them cannot be read.
    """
    changed = False
    for name in ("lock.json", "config.json"):
        path = job / name
        if not path.is_file():
            continue
        try:
            document = read_object(path, _LIMIT)
        except UnreadableError as error:
            raise NotStartedError(f"{path} is damaged: {error}. Start a new run.") from error
        if document.get("n_concurrent_trials") != n_concurrent:
            document["n_concurrent_trials"] = n_concurrent
            write_json(path, document)
            changed = True
    return changed


def _forget_address(path: Path) -> None:
    """Harbor's files hold it in the kwargs of each agent."""
    if not path.is_file() or path.is_symlink():
        return
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return
    if _dropped(document):
        write_json(path, document)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _dropped(value: Any) -> bool:
    found = False
    if isinstance(value, dict):
        kwargs = value.get("kwargs")
        if isinstance(kwargs, dict) and "api_base" in kwargs:
            del kwargs["api_base"]
            found = True
        for item in value.values():
            found = _dropped(item) or found
    elif isinstance(value, list):
        for item in value:
            found = _dropped(item) or found
    return found


def _model(name: str) -> str:
    for provider in _PROVIDERS:
        if name.startswith(provider):
            return name.removeprefix(provider)
    return name
