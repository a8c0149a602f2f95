"""Which tasks a job would run, and what each needs: asked of Harbor itself, in its own process.

`python -m tbh_action.harbor.tasks CONFIG` resolves and downloads the tasks of a Harbor job config
(so that the first pass finds them cached) and prints one JSON object. It is a process of its own
because importing Harbor takes seconds and a few hundred megabytes, which a run need not carry.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import NotStartedError

_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
# What terminus-2 is known to take: it need not be imported for that (3 s).
TERMINUS_KWARGS: Final = frozenset(
    {
        "llm_call_kwargs",
        "max_turns",
        "model_info",
        "reasoning_effort",
        "record_terminal_session",
        "session_id_headers",
        "temperature",
    }
)


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
    network_mode: str = "public"
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
        NotStartedError: Harbor refuses the job, or could not resolve them; in Harbor's words.
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
        raise NotStartedError(f"Harbor cannot plan this job: {reason}")
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
        network_mode=str(getattr(environment.network_mode, "value", environment.network_mode)),
        compose=any((path / "environment").glob("docker-compose.y*ml")),
        agent_timeout=sum(known_times) if known_times else None,
        verifier_timeout=task.config.verifier.timeout_sec,
        build_timeout=environment.build_timeout_sec,
        digest=_digest(path, digest),
        git_commit=commit,
        lfs_pointers=tuple(_lfs_pointers(path)),
    )


def _digest(path: Path, known: str | None) -> str:
    """Of the task's files, as Harbor's lock has it: a folder of one's own has no commit that could
    say what was in it."""
    from harbor.publisher.packager import Packager

    digest = known or Packager.compute_content_hash(path)[0]
    return digest if ":" in digest else f"sha256:{digest}"


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


def _check_options(config: Any) -> None:
    """What Harbor looks at when a job starts: by then a server would be paid for. Raises
    ValueError."""
    from harbor.agents.factory import AgentFactory
    from harbor.environments.factory import EnvironmentFactory

    environment = config.environment
    EnvironmentFactory.validate_options(environment)
    EnvironmentFactory.validate_resource_policies(environment)
    if environment.type != "hf-sandbox":  # whose token is looked at elsewhere
        EnvironmentFactory.run_preflight(environment.type, environment.import_path)
    for agent in config.agents:
        if agent.name == "terminus-2" and agent.kwargs.keys() <= TERMINUS_KWARGS:
            continue
        AgentFactory.get_agent_class_from_config(agent).parse_options(agent.kwargs, {})


async def _resolve(config_path: Path) -> TaskList:
    from harbor.job_plan import JobPlan
    from harbor.models.job.config import JobConfig

    config = JobConfig.model_validate_json(config_path.read_text(encoding="utf-8"))
    _check_options(config)
    task_configs = await JobPlan.resolve_task_configs(config)
    with _alone_in_the_cache():
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


@contextlib.contextmanager
def _alone_in_the_cache() -> Iterator[None]:
    """One process at a time fills the cache of tasks that all runs of a machine share.

    Harbor puts a task that another process downloaded meanwhile there once more, for which the
    first one goes: whoever reads it at that moment (a shard beside this one) finds no file. What is
    in the cache already is never touched again.
    """
    from harbor.constants import CACHE_DIR

    try:
        CACHE_DIR.mkdir(parents=True, exist_ok=True)
        file = (CACHE_DIR / "tbh.lock").open("a", encoding="utf-8")
    except OSError:  # Harbor says it better.
        yield
        return
    with file:
        with contextlib.suppress(OSError):  # no locks on this file system
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _one_line(error: Exception) -> str:
    from pydantic import ValidationError

    text = str(error)
    if isinstance(error, ValidationError):
        text = "; ".join(
            f"{'.'.join(map(str, item['loc']))} {item['input']!r}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
    return " ".join(text.split())[:1000] or type(error).__name__


def _main() -> int:
    import asyncio

    try:
        tasks = asyncio.run(_resolve(Path(sys.argv[1])))
    except Exception as error:  # noqa: BLE001 (whatever Harbor raises becomes one line)
        print(_one_line(error), file=sys.stderr)  # noqa: T201
        return 1
    print(json.dumps(tasks.to_json()))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(_main())
