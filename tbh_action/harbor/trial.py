"""One trial as its directory tells it, read leniently: nothing in a result.json is trusted.

No Harbor import and no pydantic: Harbor's own model takes seconds to import and refuses documents
that still say enough to be counted. What cannot be read stays a row with its reason.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tbh_action.harbor.documents import (
    AbsentError,
    UnreadableError,
    amount,
    clean,
    count,
    finite,
    instant,
    mapping,
    read_object,
    text,
)

RESULT_SCHEMA: Final = 1
HARBOR_VERSION: Final = "0.26"
DEFAULT_REWARD_KEY: Final = "reward"
MAX_NAME: Final = 1024
MAX_TYPE: Final = 200
MAX_MESSAGE: Final = 2000
ON_TRIAL: Final = "trial"

_CONFIG_BYTES: Final = 1024 * 1024
_RANDOM_SUFFIX: Final = re.compile(r"__[^_/]{1,16}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialError:
    """An exception that Harbor recorded; `where` is "trial" or "step NAME"."""

    type: str
    message: str
    where: str
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of all model calls of a trial. `cached` is a part of `input`: never add them."""

    input: int | None
    cached: int | None
    output: int | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """When a part of a trial began and ended (instants in UTC)."""

    started_at: datetime | None
    finished_at: datetime | None

    @property
    def seconds(self) -> float | None:
        return seconds_between(self.started_at, self.finished_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial directory.

    `unreadable` says why a result.json could not be used; `unfinished` means that there is none.
    `errors` are the trial's own exception first, then those on steps, in order. `reward` is a
    finite number or None, and `reward_problem` says why it is None; `verified` means that the
    verifier gave some result, `verifier_off` that the job was asked not to run it.
    `lock_name` is the task as lock.json names it (without the organisation for tasks from git).
    """

    directory: str
    task: str
    task_from: str = "result.json"
    lock_name: str | None = None
    unreadable: str | None = None
    unfinished: bool = False
    schema_version: int = RESULT_SCHEMA
    trial_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reward: float | None = None
    reward_problem: str | None = None
    verified: bool = False
    verifier_off: bool = False
    errors: tuple[TrialError, ...] = ()
    tokens: Tokens | None = None
    environment_setup: Phase | None = None
    agent_setup: Phase | None = None
    agent_execution: Phase | None = None
    verifier: Phase | None = None
    checksum: str | None = None
    source: str | None = None
    agent: str | None = None
    model: str | None = None

    @property
    def exception(self) -> TrialError | None:
        """The first recorded exception."""
        return self.errors[0] if self.errors else None

    @property
    def seconds(self) -> float | None:
        return seconds_between(self.started_at, self.finished_at)

    @property
    def agent_seconds(self) -> float | None:
        return self.agent_execution.seconds if self.agent_execution else None


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds from `start` to `end`; None when one is unknown or the clock went backwards."""
    if start is None or end is None or end < start:
        return None
    return (end - start).total_seconds()


def read_trial(directory: Path | str, reward_key: str = DEFAULT_REWARD_KEY) -> Trial:
    """The trial in `directory`, whatever state it is in; never raises for its content."""
    place = os.fspath(directory)
    if os.path.islink(place):  # noqa: PTH114 (on the hot path of 10,000 directories)
        return Trial(
            directory=clean(_name(place)),
            task=task_of_directory(_name(place)),
            task_from="the directory's name",
            unreadable="the directory is a symbolic link, which is not followed",
        )
    try:
        return _ended(_name(place), read_object(f"{place}/result.json"), reward_key)
    except AbsentError:
        return _unusable(place, unfinished=True)
    except _OtherSchemaError as error:
        return _unusable(place, unreadable=str(error), schema_version=error.version)
    except UnreadableError as error:
        return _unusable(place, unreadable=str(error))


def _name(place: str) -> str:
    return os.path.basename(place)  # noqa: PTH119


def task_of_directory(name: str) -> str:
    """What a trial directory's name says of its task: up to 32 characters of it."""
    return clean(_RANDOM_SUFFIX.sub("", name)) or clean(name)


class _OtherSchemaError(UnreadableError):
    def __init__(self, version: Any) -> None:
        super().__init__(
            f"result.json has schema_version {text(str(version), 20)}; this release understands "
            f"{RESULT_SCHEMA} (Harbor {HARBOR_VERSION})"
        )
        self.version = version if count(version) is not None else RESULT_SCHEMA + 1


def _ended(name: str, document: dict[str, Any], reward_key: str) -> Trial:
    version = document.get("schema_version", RESULT_SCHEMA)
    if version != RESULT_SCHEMA or isinstance(version, bool):
        raise _OtherSchemaError(version)
    task = document.get("task_name")
    if not isinstance(task, str) or not task:
        raise UnreadableError("result.json has no task_name")
    if len(task) > MAX_NAME:
        raise UnreadableError(f"result.json has a task_name of {len(task):,} characters")
    reward, reward_problem = _reward(document, reward_key)
    agent_info = mapping(document.get("agent_info"))
    return Trial(
        directory=clean(name),
        task=clean(task),
        lock_name=_lock_name(mapping(document.get("task_id"))),
        trial_id=text(document.get("id"), MAX_TYPE),
        started_at=instant(document.get("started_at")),
        finished_at=instant(document.get("finished_at")),
        reward=reward,
        reward_problem=reward_problem,
        verified=document.get("verifier_result") is not None,
        errors=_errors(document),
        tokens=_tokens(document),
        environment_setup=_phase(document.get("environment_setup")),
        agent_setup=_phase(document.get("agent_setup")),
        agent_execution=_spanned(document, "agent_execution"),
        verifier=_spanned(document, "verifier"),
        verifier_off=_verifier_off(document),
        checksum=text(document.get("task_checksum"), MAX_TYPE),
        source=text(document.get("source"), MAX_NAME),
        agent=text(agent_info.get("name"), MAX_TYPE),
        model=text(mapping(agent_info.get("model_info")).get("name"), MAX_NAME),
    )


def _unusable(
    place: str,
    *,
    unreadable: str | None = None,
    unfinished: bool = False,
    schema_version: int = RESULT_SCHEMA,
) -> Trial:
    """A trial without a usable result: its task from what else lies in the directory."""
    task, task_from = None, ""
    for name in ("lock.json", "config.json"):
        try:
            section = mapping(read_object(f"{place}/{name}", _CONFIG_BYTES).get("task"))
        except UnreadableError:
            continue
        task = _lock_name(section)
        if task is not None:
            task_from = name
            break
    return Trial(
        directory=clean(_name(place)),
        task=task or task_of_directory(_name(place)),
        task_from=task_from or "the directory's name",
        lock_name=task,
        unreadable=unreadable,
        unfinished=unfinished,
        schema_version=schema_version,
    )


def _lock_name(section: dict[str, Any]) -> str | None:
    """How lock.json names the task of a lock entry, a task id or a trial's config."""
    name, path, organisation = section.get("name"), section.get("path"), section.get("org")
    if isinstance(name, str) and name:
        found = f"{organisation}/{name}" if isinstance(organisation, str) else name
    elif isinstance(path, str):
        found = path.rstrip("/").rpartition("/")[2]
    else:
        return None
    return clean(found) if 0 < len(found) <= MAX_NAME else None


def _reward(document: dict[str, Any], key: str) -> tuple[float | None, str | None]:
    result = document.get("verifier_result")
    if result is None:
        return None, "the verifier gave no result"
    rewards = mapping(result).get("rewards")
    if not isinstance(rewards, dict) or not rewards:
        return None, "the verifier gave no reward"
    if key not in rewards:
        names = ", ".join(repr(clean(name[:50])) for name in list(rewards)[:3])
        return None, f"the verifier gave no {key!r}, but {names}"
    reward = finite(rewards[key])
    if reward is None:
        value = text(json.dumps(rewards[key]), 40)
        return None, f"the reward is no finite number ({value})"
    return reward, None


def _errors(document: dict[str, Any]) -> tuple[TrialError, ...]:
    info = document.get("exception_info")
    errors = [] if info is None else [_error(info, ON_TRIAL)]
    steps = document.get("step_results")
    for number, step in enumerate(steps if isinstance(steps, list) else (), start=1):
        info = mapping(step).get("exception_info")
        if info is not None:
            name = text(step.get("step_name"), MAX_TYPE) or str(number)
            errors.append(_error(info, f"step {name}"))
    return tuple(errors)


def _error(info: Any, where: str) -> TrialError:
    kind = text(mapping(info).get("exception_type"), MAX_TYPE)
    if not kind:
        raise UnreadableError("result.json has an exception_info without a type")
    return TrialError(
        type=kind,
        message=text(info.get("exception_message"), MAX_MESSAGE) or "",
        where=where,
        occurred_at=instant(info.get("occurred_at")),
    )


def _tokens(document: dict[str, Any]) -> Tokens | None:
    """The trial's own counts, else the sum over its steps, as Harbor adds them up itself."""
    whole = document.get("agent_result")
    if isinstance(whole, dict):
        tokens = _tokens_of(whole)
    else:
        steps = document.get("step_results")
        parts = [
            _tokens_of(mapping(mapping(step).get("agent_result")))
            for step in (steps if isinstance(steps, list) else ())
        ]
        tokens = Tokens(
            input=_sum([part.input for part in parts]),
            cached=_sum([part.cached for part in parts]),
            output=_sum([part.output for part in parts]),
            cost_usd=_sum([part.cost_usd for part in parts]),
        )
    return None if tokens == _NO_TOKENS else tokens


def _tokens_of(result: dict[str, Any]) -> Tokens:
    return Tokens(
        input=count(result.get("n_input_tokens")),
        cached=count(result.get("n_cache_tokens")),
        output=count(result.get("n_output_tokens")),
        cost_usd=amount(result.get("cost_usd")),
    )


_NO_TOKENS: Final = _tokens_of({})


def _sum[N: (int, float)](values: list[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], start=known[0]) if known else None


def _phase(value: Any) -> Phase | None:
    if not isinstance(value, dict):
        return None
    started_at, finished_at = instant(value.get("started_at")), instant(value.get("finished_at"))
    if started_at is None and finished_at is None:
        return None
    return Phase(started_at=started_at, finished_at=finished_at)


def _spanned(document: dict[str, Any], name: str) -> Phase | None:
    """A phase; for a task with steps, from the first step's start to the last one's end."""
    whole = _phase(document.get(name))
    steps = document.get("step_results")
    if whole is not None or not isinstance(steps, list):
        return whole
    phases = [phase for step in steps if (phase := _phase(mapping(step).get(name)))]
    starts = [phase.started_at for phase in phases if phase.started_at]
    ends = [phase.finished_at for phase in phases if phase.finished_at]
    if not phases:
        return None
    return Phase(started_at=min(starts, default=None), finished_at=max(ends, default=None))


def _verifier_off(document: dict[str, Any]) -> bool:
    config = mapping(document.get("config"))
    return mapping(config.get("verifier")).get("disable") is True
