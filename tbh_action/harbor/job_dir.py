"""A Harbor job directory as it lies on disk: its trials, its planned tasks, what it was asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tbh_action.harbor.documents import (
    AbsentError,
    UnreadableError,
    count,
    plain,
    read_object,
)
from tbh_action.harbor.lock import JobLock, read_lock

MAX_ATTEMPTS: Final = 1000
_MARKS: Final = ("result.json", "config.json", "lock.json", "trial.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What a job's own files say, apart from its trials.

    `planned` has one entry for each planned trial: the task as lock.json names it and its source;
    None when there is no lock. `problems` are sentences about files that could not be used.
    """

    config: dict[str, Any]
    harbor: dict[str, Any]
    planned: tuple[tuple[str, str | None], ...] | None
    task_locks: dict[str, dict[str, Any]]
    n_trials: int | None
    problems: tuple[str, ...]

    @property
    def n_attempts(self) -> int:
        """Slots a task; 1 when the job does not say, or says what cannot be."""
        said = count(self.config.get("n_attempts")) or 1
        return said if said <= MAX_ATTEMPTS else 1


def trial_directories(job: Path) -> list[Path]:
    """The directories of `job` that are, or were to become, trials; by name."""
    return [job / name for name in trial_names(job)]


def trial_names(job: Path) -> list[str]:
    """The names of `trial_directories`: making 10,000 paths takes a tenth of a second."""
    try:
        entries = list(os.scandir(job))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [
        entry.name
        for entry in entries
        if (entry.is_dir() or entry.is_symlink()) and _is_trial(entry)
    ]
    return sorted(found)


def _is_trial(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith("."):
        return False
    if "__" in entry.name:
        return True
    return any(os.path.lexists(f"{entry.path}/{mark}") for mark in _MARKS)


def read_job(job: Path) -> JobFacts:
    """Reads config.json, lock.json and result.json of a job, as far as each can be used."""
    problems: list[str] = []
    config = _optional(job / "config.json", problems)
    result = _optional(job / "result.json", problems)
    lock = _lock(job / "lock.json", problems)
    return JobFacts(
        config=plain(config),
        harbor=lock.harbor if lock else {},
        planned=tuple(_name_and_source(task) for task in lock.tasks) if lock else None,
        task_locks={task["name"]: task for task in lock.tasks} if lock else {},
        n_trials=count(result.get("n_total_trials")),
        problems=tuple(problems),
    )


def _lock(path: Path, problems: list[str]) -> JobLock | None:
    try:
        return read_lock(path)
    except AbsentError:
        return None
    except UnreadableError as error:
        problems.append(f"The job's {error}; it is left out of account.")
        return None


def _name_and_source(task: dict[str, Any]) -> tuple[str, str | None]:
    source = task.get("source")
    return task["name"], source if isinstance(source, str) else None


def _optional(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        return read_object(path)
    except AbsentError:
        return {}
    except UnreadableError as error:
        problems.append(f"The job's {error}; it is left out of account.")
        return {}
