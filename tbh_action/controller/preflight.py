"""What is looked at before anything is paid; every problem is listed at once.

Leaves the tasks of the run in `tasks.json`, with their files downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tbh_action import doctor
from tbh_action.doctor.check import Check, failures
from tbh_action.doctor.examine import check_hub, check_machine
from tbh_action.errors import NotStartedError, SpecError
from tbh_action.harbor import command
from tbh_action.harbor.tasks import TaskList, resolve_tasks
from tbh_action.policy.hardware import flavors_of, prices_of
from tbh_action.policy.plan import problems
from tbh_action.rundir import RunDir, write_json

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.spec import RunSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """`tasks`: all of the benchmark that the spec chooses; `prices`: USD per minute by flavor."""

    tasks: TaskList
    prices: dict[str, float]
    commit: str | None
    warnings: tuple[str, ...]


def preflight(api: HfApi, spec: RunSpec, run_dir: RunDir, say: Callable[[str], None]) -> Ready:
    """Looks at machine, Hub and tasks.

    Raises:
        NotStartedError: with every problem that was found, each with its cure.
    """
    checks: list[Check] = [*check_machine(spec, run_dir.root), *check_hub(api, spec)]
    found = failures(checks)
    flavors = flavors_of(doctor.check_hardware(api)[1]) if on_the_hub(spec) and not found else {}
    tasks = TaskList(tasks=())
    if not any(line.startswith(("Harbor:", "git-lfs:")) for line in found):
        try:
            known = known_tasks(run_dir) if run_dir.spec.exists() else None
            tasks = known or _resolve(spec, run_dir, say)
        except NotStartedError as error:
            found.append(in_our_words(error.message, spec))
        else:
            found += [*problems(spec, tasks.tasks, flavors), *_pointers(tasks)]
    if found:
        raise NotStartedError(_listed(found))
    write_json(run_dir.tasks, tasks.to_json())
    return Ready(
        tasks=tasks,
        prices=prices_of(flavors),
        commit=commit_of(tasks),
        warnings=tuple(_warnings(checks, tasks)),
    )


def known_tasks(run_dir: RunDir) -> TaskList | None:
    """The tasks that an earlier process of this run resolved: a run's tasks never change.

    Raises:
        SpecError: the file is damaged.
    """
    if not run_dir.tasks.exists():
        return None
    try:
        return TaskList.from_json(json.loads(run_dir.tasks.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"{run_dir.tasks} is damaged; start a new run.") from error


def commit_of(tasks: TaskList) -> str | None:
    """The one git commit that all tasks come from, None when there is none."""
    commits = {task.git_commit for task in tasks.tasks}
    return commits.pop() if len(commits) == 1 else None


def _resolve(spec: RunSpec, run_dir: RunDir, say: Callable[[str], None]) -> TaskList:
    say(f"resolving the tasks of {spec.benchmark.name}")
    question = run_dir.root / "harbor-question.json"
    write_json(question, command.job_config(spec, run_dir))
    env = command.harbor_environment(
        base_url="", api_key="", control_url="", control_key="", run_id=""
    )
    try:
        return resolve_tasks(question, env)
    finally:
        question.unlink(missing_ok=True)


def in_our_words(message: str, spec: RunSpec) -> str:
    """Harbor's words, or our own where we know the cause: it says no more of git than its exit
    code, and nothing at all of a benchmark without tasks."""
    source = failures([doctor.check_dataset(spec.benchmark)])
    if source:
        return source[0]
    if "datasets or tasks must be provided" in message:
        return "No task is left → check --include-task and --exclude-task"
    return message


def _pointers(tasks: TaskList) -> list[str]:
    """Tasks whose data git-lfs did not fetch could not be solved by anyone."""
    found = [task for task in tasks.tasks if task.lfs_pointers]
    if not found:
        return []
    names, first = ", ".join(task.name for task in found[:5]), found[0]
    line = (
        f"The data of {names} was not fetched by git-lfs ({first.lfs_pointers[0]} is a pointer) → "
        f"run `git lfs install`, then remove {first.directory}"
    )
    return [line]


def on_the_hub(spec: RunSpec) -> bool:
    """Whether anything of this run is paid for on the Hub."""
    return spec.server is not None or spec.environment.type == "hf-sandbox"


def _warnings(checks: list[Check], tasks: TaskList) -> list[str]:
    lines = [
        f"{check.name}: {check.detail} → {check.cure}" for check in checks if check.status == "warn"
    ]
    if tasks.left_out:
        lines.append(
            f"Harbor finds {len(tasks.left_out)} folders of the benchmark invalid and leaves them "
            f"out: {', '.join(tasks.left_out[:5])}"
        )
    return lines


def _listed(found: list[str]) -> str:
    if len(found) == 1:
        return f"Nothing was started: {found[0]}"
    return "\n  - ".join([f"Nothing was started; {len(found)} problems:", *found])
