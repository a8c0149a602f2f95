"""The ledger: one immutable record for each trial that ended, kept whatever Harbor deletes.

`attempts.jsonl` is append-only. A trial whose evidence changed later (an outage that became known)
gets another line; the latest line of a trial counts. A line that a crash tore is left out, and
`reconcile` writes it again from the trial's directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, get_args

from tbh_action.harbor.archive import find_trial
from tbh_action.harbor.documents import amount, clean, count, finite, instant, iso
from tbh_action.harbor.job_dir import trial_directories
from tbh_action.harbor.trial import DEFAULT_REWARD_KEY, Tokens, Trial, read_trial
from tbh_action.rundir import RunDir, append_line, read_lines
from tbh_action.scoring.failures import (
    DEFAULT_REPEAT,
    FailureClass,
    Interval,
    Judgement,
    RepeatPolicy,
    judge,
)

_CLASSES: Final = frozenset(get_args(FailureClass.__value__))
_INSTANTS: Final = ("started_at", "agent_started_at", "agent_finished_at", "finished_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One trial that ended, with what was judged of it.

    `trial` is the directory's name and the identity within a run; `pass_number` is None when no
    ledger says it. `reward` stays visible when it does not count. `exceptions` are the types of
    the trial's exception and of those on steps. `directory` is relative to the run (or job)
    directory when it was recorded.
    """

    task: str
    trial: str
    failure_class: FailureClass
    scored: bool
    retryable: bool
    reason: str = ""
    cause: str | None = None
    pass_number: int | None = None
    task_from: str = "result.json"
    exceptions: tuple[str, ...] = ()
    message: str | None = None
    reward: float | None = None
    started_at: datetime | None = None
    agent_started_at: datetime | None = None
    agent_finished_at: datetime | None = None
    finished_at: datetime | None = None
    tokens: Tokens | None = None
    checksum: str | None = None
    source: str | None = None
    lock_name: str | None = None
    model: str | None = None
    agent: str | None = None
    directory: str | None = None

    @property
    def passed(self) -> bool:
        """A scored trial passes with the whole reward."""
        return self.scored and self.reward is not None and self.reward >= 1

    @property
    def exception(self) -> str | None:
        return self.exceptions[0] if self.exceptions else None

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is unknown is left out."""
        document: dict[str, Any] = {}
        for field in _FIELDS:
            value = getattr(self, field)
            if value is None or value == ():
                continue
            if isinstance(value, datetime):
                value = iso(value)
            elif isinstance(value, Tokens):
                value = {name: getattr(value, name) for name in _TOKENS}
            elif isinstance(value, tuple):
                value = list(value)
            document[field] = value
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Attempt:
        """The record in `document`.

        Raises:
            ValueError: it is no record of this kind.
        """
        values = {field: document[field] for field in _FIELDS if document.get(field) is not None}
        for name in ("task", "trial", "reason"):
            if not isinstance(values.get(name, ""), str):
                raise ValueError(f"{name} is no text")
        if values.get("failure_class") not in _CLASSES or not values.get("task"):
            raise ValueError("no class, or no task")
        for name in _INSTANTS:
            values[name] = instant(values.get(name))
        values["exceptions"] = tuple(map(str, values.get("exceptions", ())))
        values["reward"] = finite(values.get("reward"))
        values["pass_number"] = count(values.get("pass_number"))
        tokens = values.get("tokens")
        if isinstance(tokens, dict):
            values["tokens"] = Tokens(
                input=count(tokens.get("input")),
                cached=count(tokens.get("cached")),
                output=count(tokens.get("output")),
                cost_usd=amount(tokens.get("cost_usd")),
            )
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from error


_FIELDS: Final = tuple(field.name for field in fields(Attempt))
_TOKENS: Final = tuple(field.name for field in fields(Tokens))


def attempt_of(
    trial: Trial,
    judgement: Judgement,
    *,
    pass_number: int | None = None,
    directory: str | None = None,
) -> Attempt:
    """The record of a trial that was read and judged."""
    phase = trial.agent_execution
    return Attempt(
        task=trial.task,
        trial=trial.directory,
        failure_class=judgement.failure_class,
        scored=judgement.scored,
        retryable=judgement.retryable,
        reason=judgement.reason,
        cause=judgement.cause,
        pass_number=pass_number,
        task_from=trial.task_from,
        exceptions=tuple(error.type for error in trial.errors),
        message=trial.exception.message if trial.exception else None,
        reward=trial.reward,
        started_at=trial.started_at,
        agent_started_at=phase.started_at if phase else None,
        agent_finished_at=phase.finished_at if phase else None,
        finished_at=trial.finished_at,
        tokens=trial.tokens,
        checksum=trial.checksum,
        source=trial.source,
        lock_name=trial.lock_name,
        model=trial.model,
        agent=trial.agent,
        directory=directory,
    )


def read_attempts(path: Path) -> list[Attempt]:
    """The latest record of each trial, in the order in which the trials first ended."""
    latest: dict[str, Attempt] = {}
    for document in read_lines(path):
        try:
            attempt = Attempt.from_json(document)
        except ValueError:
            continue
        latest[attempt.trial] = attempt
    return list(latest.values())


def append_attempts(path: Path, attempts: Iterable[Attempt]) -> None:
    """Adds records. A line that a crash tore is closed first, or it would spoil the next one."""
    _close_last_line(path)
    for attempt in attempts:
        append_line(path, attempt.to_json())


def _close_last_line(path: Path) -> None:
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def reconcile(
    run_dir: RunDir,
    pass_number: int,
    *,
    running: bool = False,
    outages: Sequence[Interval] = (),
    repeat: RepeatPolicy = DEFAULT_REPEAT,
    reward_key: str = DEFAULT_REWARD_KEY,
) -> list[Attempt]:
    """Records each trial directory that the ledger lacks; see `unrecorded` for the arguments.

    Idempotent, so it is both the normal way in and the repair after a kill -9. Returns what was
    new, oldest end first.
    """
    recorded = read_attempts(run_dir.attempts)
    new = unrecorded(
        run_dir,
        recorded,
        pass_number=pass_number,
        running=running,
        outages=outages,
        repeat=repeat,
        reward_key=reward_key,
    )
    append_attempts(run_dir.attempts, new)
    return new


def unrecorded(
    run_dir: RunDir,
    recorded: Iterable[Attempt],
    *,
    pass_number: int | None,
    running: bool = False,
    outages: Sequence[Interval] = (),
    repeat: RepeatPolicy = DEFAULT_REPEAT,
    reward_key: str = DEFAULT_REWARD_KEY,
) -> list[Attempt]:
    """The trials in the job and in the archives that are not recorded yet, oldest end first.

    A trial that was recorded without its result, and has one now, is one of them.

    Args:
        run_dir: the run.
        recorded: the ledger.
        pass_number: the pass that made the trials of the job directory; archived ones carry
            their own.
        running: Harbor is at work: a trial without a readable result has not ended yet.
        outages: see `judge`.
        repeat: see `judge`.
        reward_key: the name of the reward that counts.
    """
    by_name = {attempt.trial: attempt for attempt in recorded}
    known = {name for name, attempt in by_name.items() if not _without_result(attempt)}
    places: list[tuple[Path, int | None]] = [(run_dir.harbor_job, pass_number)]
    places += [(archive, int(archive.name[5:])) for archive in run_dir.archives()]
    new: dict[str, Attempt] = {}
    for place, number in places:
        for directory in trial_directories(place):
            name = clean(directory.name)
            if name in known or name in new:
                continue
            trial = read_trial(directory, reward_key)
            unusable = trial.unfinished or trial.unreadable is not None
            if unusable and (running or name in by_name):
                continue
            judgement = judge(trial, outages=outages, repeat=repeat)
            where = str(directory.relative_to(run_dir.root))
            attempt = attempt_of(trial, judgement, pass_number=number, directory=where)
            if name not in by_name or attempt.failure_class != by_name[name].failure_class:
                new[name] = attempt
    return sorted(new.values(), key=_by_end)


def _without_result(attempt: Attempt) -> bool:
    return attempt.failure_class == "unreadable" or (
        attempt.failure_class == "interrupted" and not attempt.exceptions
    )


def rejudge(
    run_dir: RunDir,
    outages: Sequence[Interval],
    *,
    repeat: RepeatPolicy = DEFAULT_REPEAT,
    reward_key: str = DEFAULT_REWARD_KEY,
) -> list[Attempt]:
    """Judges again with the outages that are known now, and records what became infrastructure.

    Evidence moves a failure away from the model only: nothing that was called infrastructure once
    is scored later.
    """
    changed: list[Attempt] = []
    for attempt in read_attempts(run_dir.attempts):
        directory = find_trial(run_dir, attempt.trial)
        if attempt.failure_class not in ("timeout", "setup") or directory is None or not outages:
            continue
        trial = read_trial(directory, reward_key)
        judgement = judge(trial, outages=outages, repeat=repeat)
        if judgement.failure_class == "infrastructure":
            changed.append(
                replace(
                    attempt,
                    failure_class=judgement.failure_class,
                    scored=judgement.scored,
                    retryable=judgement.retryable,
                    reason=judgement.reason,
                    cause=judgement.cause,
                )
            )
    append_attempts(run_dir.attempts, changed)
    return changed


def retryable(
    attempts: Iterable[Attempt], *, present: Iterable[str], n_attempts: int = 1
) -> list[Attempt]:
    """Which trials of the job directory a further pass repeats: only unscored ones.

    Trials that were interrupted leave the directory in any case, since Harbor deletes them when it
    resumes; others only while their task has a slot without a score.

    Args:
        attempts: the ledger.
        present: the names of the trial directories that lie in the job.
        n_attempts: slots a task.
    """
    scored: dict[str, int] = {}
    candidates: list[Attempt] = []
    here = set(present)
    for attempt in attempts:
        if attempt.scored:
            scored[attempt.task] = scored.get(attempt.task, 0) + 1
        elif attempt.retryable and attempt.trial in here:
            candidates.append(attempt)
    return [
        attempt
        for attempt in candidates
        if attempt.failure_class == "interrupted" or scored.get(attempt.task, 0) < n_attempts
    ]


def _by_end(attempt: Attempt) -> tuple[bool, float, str]:
    end = attempt.finished_at
    return (end is not None, end.timestamp() if end else 0.0, attempt.trial)
