"""Which tasks a job would run, and what each needs: asked of Harbor itself, in its own process.

`python -m tbh_action.harbor.tasks CONFIG` resolves and downloads the tasks of a Harbor job config
(so that the first pass finds them cached) and prints one JSON object. It is a process of its own
because importing Harbor takes seconds and a few hundred megabytes, which a run need not carry.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tbh_action.errors import NotStartedError

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskInfo:
    """One task as its `task.toml` says. Times are seconds before any multiplier."""

    name: str
    directory: str
    docker_image: str | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    gpus: int = 0
    compose: bool = False
    agent_timeout: float | None = None
    verifier_timeout: float | None = None
    build_timeout: float | None = None
    digest: str | None = None
    git_commit: str | None = None
    lfs_pointers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskList:
    """The tasks in Harbor's order, and the directories that Harbor would leave out silently."""

    tasks: tuple[TaskInfo, ...]
    left_out: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"tasks": [asdict(task) for task in self.tasks], "left_out": list(self.left_out)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TaskList:
        tasks = tuple(_task(task) for task in document["tasks"])
        return cls(tasks=tasks, left_out=tuple(document.get("left_out", ())))


def _task(document: dict[str, Any]) -> TaskInfo:
    known = {field.name for field in fields(TaskInfo)}
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in document.items()
        if key in known
    }
    return TaskInfo(**values)


def resolve_tasks(config: Path, env: dict[str, str]) -> TaskList:
    """The tasks of the job config at `config`.

    Raises:
        NotStartedError: Harbor could not resolve them; the message is Harbor's last line.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tbh_action.harbor.tasks", str(config)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        reason = lines[-1] if lines else f"exit code {done.returncode}"
        raise NotStartedError(f"Harbor cannot resolve the benchmark's tasks: {reason}")
    return TaskList.from_json(json.loads(done.stdout.strip().splitlines()[-1]))


def _describe(path: Path, digest: str | None, commit: str | None) -> TaskInfo:
    from harbor.models.task.task import Task

    task = Task(path, disable_verification=True)
    environment = task.config.environment
    steps = list(getattr(task.config, "steps", None) or [])
    agent_times = [task.config.agent.timeout_sec, *(step.agent.timeout_sec for step in steps)]
    known_times = [time for time in agent_times if time]
    return TaskInfo(
        name=task.name,
        directory=str(path),
        docker_image=environment.docker_image,
        cpus=environment.cpus,
        memory_mb=environment.memory_mb,
        gpus=environment.gpus or 0,
        compose=any((path / "environment").glob("docker-compose.y*ml")),
        agent_timeout=sum(known_times) if known_times else None,
        verifier_timeout=task.config.verifier.timeout_sec,
        build_timeout=environment.build_timeout_sec,
        digest=digest,
        git_commit=commit,
        lfs_pointers=tuple(_lfs_pointers(path)),
    )


def _lfs_pointers(path: Path) -> list[str]:
    """Files that git-lfs should have replaced by their content, relative to the task."""
    found = []
    for file in sorted(path.rglob("*")):
        if file.is_file() and not file.is_symlink() and file.stat().st_size < 1024:
            with file.open("rb") as handle:
                if handle.read(len(_LFS_POINTER)) == _LFS_POINTER:
                    found.append(str(file.relative_to(path)))
    return found


def _left_out(config: Any) -> list[str]:
    """Local task directories that Harbor skips without a word, since it finds them invalid."""
    from harbor.models.task.task import Task

    skipped = []
    for dataset in config.datasets:
        if dataset.repo is None and dataset.path is not None:
            for path in sorted(dataset.path.iterdir()):
                if (path / "task.toml").exists() and not Task.is_valid_dir(path):
                    skipped.append(path.name)
    return skipped


async def _resolve(config_path: Path) -> TaskList:
    from harbor.job_plan import JobPlan
    from harbor.models.job.config import JobConfig

    config = JobConfig.model_validate_json(config_path.read_text(encoding="utf-8"))
    task_configs = await JobPlan.resolve_task_configs(config)
    downloads = await JobPlan.cache_tasks(task_configs)
    infos = []
    for task_config in task_configs:
        result = downloads.get(task_config.get_task_id())
        path = result.path if result else task_config.get_local_path()
        infos.append(
            _describe(
                path,
                result.content_hash if result else None,
                (result.resolved_git_commit_id if result else None) or task_config.git_commit_id,
            )
        )
    return TaskList(tasks=tuple(infos), left_out=tuple(_left_out(config)))


def _main() -> int:
    import asyncio

    try:
        tasks = asyncio.run(_resolve(Path(sys.argv[1])))
    except Exception as error:  # noqa: BLE001 (whatever Harbor raises becomes one line)
        message = " ".join(str(error).split()) or type(error).__name__
        print(message[:2000], file=sys.stderr)  # noqa: T201
        return 1
    print(json.dumps(tasks.to_json()))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(_main())
