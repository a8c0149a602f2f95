"""`tbh score`: the results document of any Harbor job directory, or of a run directory.

Reads, never writes: no network, no Harbor. What a job's files do not say stays unknown.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import SpecError
from tbh_action.harbor.archive import find_trial
from tbh_action.harbor.documents import AbsentError, UnreadableError, count, mapping, read_object
from tbh_action.harbor.job_dir import JobFacts, read_job, trial_names
from tbh_action.harbor.logs import MAX_ALL_TAILS, log_tail
from tbh_action.harbor.trial import DEFAULT_REWARD_KEY, read_trial
from tbh_action.policy.shard import parse_shard, tasks_of_shard
from tbh_action.redact import is_secret_name
from tbh_action.rundir import RunDir
from tbh_action.scoring.combine import facts_of_results, plan_of_results
from tbh_action.scoring.failures import judge
from tbh_action.scoring.fingerprint import fingerprint_of, flatten
from tbh_action.scoring.ledger import Attempt, attempt_of, read_attempts, unrecorded
from tbh_action.scoring.outcomes import Plan, plan_from_lock, plan_of
from tbh_action.scoring.results import RunFacts, build, read

# Where the model is served changes from pass to pass; it does not decide the result.
_ADDRESSES: Final = frozenset({"api_base", "base_url"})


def score_directory(
    directory: Path, *, reward_key: str = DEFAULT_REWARD_KEY, with_logs: bool = False
) -> dict[str, Any]:
    """The results document of what lies in `directory`.

    Args:
        directory: a run directory of ours or a Harbor job directory.
        reward_key: the name of the reward that counts.
        with_logs: take the ends of the logs of what did not pass.

    Raises:
        SpecError: there is nothing to score.
    """
    directory = directory.expanduser().resolve()
    if not directory.is_dir():
        raise SpecError(f"{directory} is no directory; give a Harbor job or a run directory.")
    run_dir = RunDir(directory)
    with _no_search_for_cycles():
        if run_dir.spec.exists() or run_dir.attempts.exists():
            return score_run(run_dir, reward_key=reward_key, with_logs=with_logs)
        if (directory / "lock.json").exists() or trial_names(directory):
            return score_job(directory, reward_key=reward_key, with_logs=with_logs)
    if run_dir.results.exists():
        return read(run_dir.results)
    raise SpecError(
        f"{directory} holds no trials; give a directory that `harbor run` or `tbh run` made."
    )


def score_job(
    job: Path, *, reward_key: str = DEFAULT_REWARD_KEY, with_logs: bool = False
) -> dict[str, Any]:
    """The results document of a Harbor job directory.

    Raises:
        SpecError: it is a folder of jobs.
    """
    attempts = []
    for name in trial_names(job):
        trial = read_trial(f"{job}/{name}", reward_key)
        if trial.unreadable and _is_job(job / name):
            raise SpecError(f"{job} is a folder of jobs; give one of them, such as {job / name}.")
        attempts.append(attempt_of(trial, judge(trial), directory=name))
    known = read_job(job)
    plan = plan_from_lock(known.planned, attempts, known.n_attempts)
    tails = _log_tails(attempts, lambda trial: job / trial) if with_logs else {}
    return build(_job_facts(job, known, attempts), plan, attempts, log_tails=tails)


def score_run(
    run_dir: RunDir, *, reward_key: str = DEFAULT_REWARD_KEY, with_logs: bool = False
) -> dict[str, Any]:
    """The results document of a run: its ledger, and what lies in it that the ledger lacks."""
    attempts = read_attempts(run_dir.attempts)
    late = unrecorded(run_dir, attempts, pass_number=None, reward_key=reward_key)
    attempts = list({attempt.trial: attempt for attempt in (*attempts, *late)}.values())
    facts, plan = _run_facts(run_dir, attempts)
    tails = _log_tails(attempts, partial(find_trial, run_dir)) if with_logs else {}
    return build(facts, plan, attempts, log_tails=tails)


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """What is read has no cycles and stays to the end. Searching it for them again and again, here
    and while a report is made, takes a tenth of the whole time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def _is_job(directory: Path) -> bool:
    try:
        return "n_total_trials" in read_object(directory / "result.json")
    except UnreadableError:
        return False


def _log_tails(attempts: Iterable[Attempt], find: Callable[[str], Path | None]) -> dict[str, str]:
    """The log's end of each trial that did not pass, as long as all of them stay small."""
    tails: dict[str, str] = {}
    room = MAX_ALL_TAILS
    for attempt in attempts:
        if attempt.passed or room <= 0:
            continue
        place = find(attempt.trial)
        if place and (tail := log_tail(place, scored=attempt.scored)):
            tails[attempt.trial] = tail
            room -= len(tail)
    return tails


def _job_facts(job: Path, known: JobFacts, attempts: list[Attempt]) -> RunFacts:
    agent = _first(known.config.get("agents"))
    dataset = _first(known.config.get("datasets"))
    kwargs = _public(mapping(agent.get("kwargs")))
    # The trials say it without the name of the API in front.
    model = next((a.model for a in attempts if a.model), None) or _text(agent, "model_name")
    name = _text(agent, "name") or next((a.agent for a in attempts if a.agent), None)
    fields = _job_fields(known, agent | {"kwargs": kwargs}, dataset) if known.config else {}
    return RunFacts(
        name=job.name,
        model={"name": model},
        benchmark={
            "name": _benchmark_name(dataset)
            or next((a.source for a in attempts if a.source), None),
            "source": _text(dataset, "repo", "path", "name"),
            "revision": _commit(known),
        },
        agent={"name": name, "kwargs": kwargs},
        fingerprint=fingerprint_of(fields) if fields else None,
        fingerprint_fields=fields,
        n_attempts=known.n_attempts,
        provenance={"harbor": known.harbor.get("version")} if known.harbor else {},
        warnings=(*known.problems, *_shortfall(known, attempts)),
    )


def _benchmark_name(dataset: Mapping[str, Any]) -> str | None:
    """The last part of the dataset's address or path, without a revision behind `@`."""
    source = _text(dataset, "name", "repo", "path") or ""
    return source.partition("@")[0].rstrip("/").rpartition("/")[2] or None


def _job_fields(known: JobFacts, agent: dict[str, Any], dataset: dict[str, Any]) -> dict[str, Any]:
    """What decided the job's result, as far as its config says it."""
    environment = mapping(known.config.get("environment"))
    multipliers = {
        key: value
        for key, value in known.config.items()
        if key.endswith("timeout_multiplier") and value not in (None, 1.0)
    }
    return flatten(
        {
            "model": {"name": agent.get("model_name")},
            "agent": {"name": agent.get("name"), "kwargs": agent["kwargs"]},
            "environment": {
                "type": environment.get("type"),
                "kwargs": _public(mapping(environment.get("kwargs"))),
            },
            "benchmark": {
                **{key: dataset.get(key) for key in ("repo", "path", "name") if dataset.get(key)},
                "revision": _commit(known),
            },
            "n_attempts": known.n_attempts,
            **multipliers,
        }
    )


def _commit(known: JobFacts) -> str | None:
    commits = {task.get("git_commit_id") for task in known.task_locks.values()}
    only = commits.pop() if len(commits) == 1 else None
    return only if isinstance(only, str) else None


def _shortfall(known: JobFacts, attempts: list[Attempt]) -> Iterable[str]:
    if known.planned is None and known.n_trials and known.n_trials > len(attempts):
        yield (
            f"The job planned {known.n_trials} trials and {len(attempts)} are here; without a "
            "lock.json the missing ones are not known by name and not counted."
        )


def _text(values: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these that is text and not empty."""
    found = (values.get(key) for key in keys)
    return next((value for value in found if isinstance(value, str) and value), None)


def _first(value: Any) -> dict[str, Any]:
    return mapping(value[0]) if isinstance(value, list) and value else {}


def _public(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Without addresses and without anything that is named like a secret."""
    return {
        key: value
        for key, value in kwargs.items()
        if key not in _ADDRESSES and not is_secret_name(key)
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What spec.json and tasks.json say, read without the spec's model: `tbh score` starts fast."""

    document: dict[str, Any]
    spec: dict[str, Any]
    tasks: list[str]


def _run_facts(run_dir: RunDir, attempts: list[Attempt]) -> tuple[RunFacts, Plan]:
    """From the run's last results.json, else from what was asked and where it stands."""
    if run_dir.results.exists():
        earlier = read(run_dir.results)
        return replace(facts_of_results(earlier), complete=None), plan_of_results(earlier)
    asked = _asked(run_dir)
    state = _optional(run_dir.state)
    model, benchmark = mapping(asked.spec.get("model")), mapping(asked.spec.get("benchmark"))
    agent = mapping(asked.spec.get("agent"))
    n_attempts = count(asked.spec.get("n_attempts")) or 1
    facts = RunFacts(
        name=run_dir.name,
        started_at=state.get("started_at"),
        finished_at=state.get("finished_at"),
        stop_reason=state.get("stop_reason"),
        model={"name": model.get("name"), "revision": model.get("revision")},
        benchmark={
            "name": benchmark.get("name"),
            "source": _text(benchmark, "repo", "path", "dataset"),
            "revision": state.get("benchmark_commit") or benchmark.get("revision"),
        },
        agent={"name": agent.get("name"), "kwargs": _public(mapping(agent.get("kwargs")))},
        fingerprint=asked.document.get("fingerprint"),
        fingerprint_fields=mapping(asked.document.get("fingerprint_fields")),
        n_attempts=n_attempts,
        passes=[mapping(record) for record in state.get("passes") or ()],
    )
    if asked.tasks:
        return facts, plan_of(asked.tasks, n_attempts)
    return facts, plan_from_lock(read_job(run_dir.harbor_job).planned, attempts, n_attempts)


def _asked(run_dir: RunDir) -> _Asked:
    document = _optional(run_dir.spec)
    tasks = _optional(run_dir.tasks).get("tasks")
    names = [
        task["name"]
        for task in (tasks if isinstance(tasks, list) else ())
        if isinstance(mapping(task).get("name"), str)
    ]
    if document.get("shard"):
        names = tasks_of_shard(names, parse_shard(str(document["shard"])))
    return _Asked(document=document, spec=mapping(document.get("spec")), tasks=names)


def _optional(path: Path) -> dict[str, Any]:
    try:
        return read_object(path)
    except AbsentError:
        return {}
    except UnreadableError as error:
        raise SpecError(f"{path.parent} cannot be scored: {error}.") from error
