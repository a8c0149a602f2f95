"""A Harbor job directory as it lies on disk: its trials, its planned tasks, what it was asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tbh_action.harbor.documents import (
    AbsentError,
    UnreadableError,
    clean,
    count,
    mapping,
    plain,
    read_object,
)
from tbh_action.harbor.trial import MAX_NAME

# A lock holds some kilobytes for each planned trial.
_LOCK_BYTES: Final = 1024 * 1024 * 1024
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
    try:
        entries = list(os.scandir(job))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [
        entry.name
        for entry in entries
        if (entry.is_dir() or entry.is_symlink()) and _is_trial(entry)
    ]
    return [job / name for name in sorted(found)]


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
    lock = _optional(job / "lock.json", problems, _LOCK_BYTES)
    entries = lock.pop("trials", None)
    tasks = [mapping(mapping(entry).get("task")) for entry in entries or ()] if lock else []
    planned = tuple(
        (clean(task["name"]), task["source"] if isinstance(task.get("source"), str) else None)
        for task in tasks
        if isinstance(task.get("name"), str) and 0 < len(task["name"]) <= MAX_NAME
    )
    return JobFacts(
        config=plain(config),
        harbor=plain(mapping(lock.get("harbor"))),
        planned=planned if isinstance(entries, list) else None,
        task_locks={
            clean(task["name"]): task for task in tasks if isinstance(task.get("name"), str)
        },
        n_trials=count(result.get("n_total_trials")),
        problems=tuple(problems),
    )


def _optional(path: Path, problems: list[str], limit: int = 32 * 1024 * 1024) -> dict[str, Any]:
    try:
        return read_object(path, limit)
    except AbsentError:
        return {}
    except UnreadableError as error:
        problems.append(f"The job's {error}; it is left out of account.")
        return {}
