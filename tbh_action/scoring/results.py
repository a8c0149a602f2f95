"""results.json: the machine-readable answer, from which every report and comparison is made.

The document is described by `results.schema.json`. Equal input gives equal bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import SpecError
from tbh_action.harbor.documents import (
    UnreadableError,
    instant,
    iso,
    parse_object,
    plain,
    read_bytes,
)
from tbh_action.harbor.trial import seconds_between
from tbh_action.rundir import write_atomic
from tbh_action.scoring.ledger import Attempt
from tbh_action.scoring.outcomes import Outcome, Plan, first_pass, name_tasks, outcomes, unplanned
from tbh_action.scoring.scores import cost_with_passed, figures, ratio
from tbh_action.scoring.shape import fault

SCHEMA_VERSION: Final = 1
_MAX_BYTES: Final = 1024 * 1024 * 1024
_NAMES_SHOWN: Final = 5
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_PASS_KEYS: Final = (
    "number",
    "kind",
    "started_at",
    "finished_at",
    "trials",
    "repeated",
    "repaired",
    "exit_code",
    "reason",
)
_OUTAGE_KEYS: Final = ("started_at", "finished_at", "reason")
_LIMIT_KEYS: Final = ("at", "limit", "reason")


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What is known of a run besides its trials; plain values as results.json has them.

    `complete` None means: decide it from the outcomes. `passes`, `outages` and `concurrency` are
    lists of the objects that the schema describes.
    """

    name: str
    started_at: str | None = None
    finished_at: str | None = None
    complete: bool | None = None
    stop_reason: str | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    benchmark: Mapping[str, Any] = field(default_factory=dict)
    agent: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str | None = None
    fingerprint_fields: Mapping[str, Any] = field(default_factory=dict)
    n_attempts: int = 1
    passes: Sequence[Mapping[str, Any]] = ()
    outages: Sequence[Mapping[str, Any]] = ()
    concurrency: Sequence[Mapping[str, Any]] = ()
    cost: Mapping[str, Any] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def build(
    facts: RunFacts,
    plan: Plan,
    attempts: Iterable[Attempt],
    *,
    log_tails: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The results document of a run.

    Args:
        facts: what is known besides the trials.
        plan: the slots of each task.
        attempts: all trials that ended, in any order.
        log_tails: the end of a trial's log, by trial.
    """
    named = name_tasks(attempts, plan)
    rows = outcomes(plan, named)
    numbers = figures(rows)
    passed_first = first_pass(plan, named)
    planned = numbers["counts"]["planned"]
    return {
        "schema_version": SCHEMA_VERSION,
        "run": _run(facts, rows),
        "model": {"name": None, "revision": None, **facts.model},
        "benchmark": {"name": None, "source": None, "revision": None, **facts.benchmark},
        "agent": {"name": None, "kwargs": {}, **facts.agent},
        "fingerprint": facts.fingerprint,
        "fingerprint_fields": dict(facts.fingerprint_fields),
        "n_attempts": facts.n_attempts,
        "n_tasks": len({row.task for row in rows}),
        **numbers,
        "first_pass": {"passed": passed_first, "rate_all": ratio(passed_first, planned)},
        "cost": cost_with_passed(facts.cost, numbers["counts"]["passed"]),
        "passes": [_plain(item, _PASS_KEYS) for item in facts.passes],
        "tasks": [_row(row, log_tails or {}) for row in rows],
        "timeline": {
            "trials": _timeline(rows),
            "outages": [_plain(item, _OUTAGE_KEYS) for item in facts.outages],
            "concurrency": [_plain(item, _LIMIT_KEYS) for item in facts.concurrency],
        },
        "comparison": None,
        "gate": None,
        "flaky": [],
        "provenance": dict(facts.provenance),
        "warnings": [*facts.warnings, *_warnings(rows, unplanned(plan, named))],
    }


def _run(facts: RunFacts, rows: Sequence[Outcome]) -> dict[str, Any]:
    trials = [trial for row in rows for trial in _trials(row)]
    starts = [trial.started_at for trial in trials if trial.started_at]
    ends = [trial.finished_at for trial in trials if trial.finished_at]
    whole = all(row.failure_class not in ("missing", "interrupted") for row in rows)
    return {
        "name": facts.name,
        "started_at": iso(instant(facts.started_at) or min(starts, default=None)),
        "finished_at": iso(instant(facts.finished_at) or max(ends, default=None)),
        "complete": (whole and bool(rows)) if facts.complete is None else facts.complete,
        "stop_reason": facts.stop_reason,
    }


def _plain(item: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The entry with exactly these keys, and its times as this document writes them."""
    return {
        key: iso(instant(item.get(key))) if key == "at" or key.endswith("_at") else item.get(key)
        for key in keys
    }


def _trials(row: Outcome) -> Iterable[Attempt]:
    return (*((row.winner,) if row.winner else ()), *row.superseded)


def _row(row: Outcome, log_tails: Mapping[str, str]) -> dict[str, Any]:
    winner = row.winner
    tokens = winner.tokens if winner else None
    return {
        "task": row.task,
        "attempt": row.attempt,
        "status": row.status,
        "class": row.failure_class,
        "exception": winner.exception if winner else None,
        "reward": winner.reward if winner else None,
        "reason": row.reason,
        "trial": winner.trial if winner else None,
        "pass": winner.pass_number if winner else None,
        "started_at": iso(winner.started_at) if winner else None,
        "finished_at": iso(winner.finished_at) if winner else None,
        "superseded": len(row.superseded),
        "superseded_trials": [_superseded(attempt) for attempt in row.superseded],
        "seconds": seconds_between(winner.started_at, winner.finished_at) if winner else None,
        "agent_seconds": (
            seconds_between(winner.agent_started_at, winner.agent_finished_at) if winner else None
        ),
        "tokens": (
            {"input": tokens.input, "cached": tokens.cached, "output": tokens.output}
            if tokens
            else None
        ),
        "log_tail": log_tails.get(winner.trial) if winner else None,
        "message": winner.message if winner else None,
    }


def _superseded(attempt: Attempt) -> dict[str, Any]:
    return {
        "trial": attempt.trial,
        "pass": attempt.pass_number,
        "status": _status(attempt),
        "class": attempt.failure_class,
        "exception": attempt.exception,
        "reward": attempt.reward,
        "reason": attempt.reason,
        "started_at": iso(attempt.started_at),
        "finished_at": iso(attempt.finished_at),
    }


def _status(attempt: Attempt) -> str:
    if not attempt.scored:
        return "errored"
    return "passed" if attempt.passed else "failed"


def _timeline(rows: Iterable[Outcome]) -> list[dict[str, Any]]:
    trials = [trial for row in rows for trial in _trials(row)]
    trials.sort(key=lambda trial: (trial.started_at or _NEVER, trial.trial))
    return [
        {
            "task": trial.task,
            "trial": trial.trial,
            "pass": trial.pass_number,
            "started_at": iso(trial.started_at),
            "agent_started_at": iso(trial.agent_started_at),
            "agent_finished_at": iso(trial.agent_finished_at),
            "finished_at": iso(trial.finished_at),
            "status": _status(trial),
            "class": trial.failure_class,
        }
        for trial in trials
    ]


def _warnings(rows: Sequence[Outcome], surplus: Sequence[str]) -> list[str]:
    by_class: dict[str, list[str]] = {}
    for row in rows:
        if row.status == "errored":
            what = f"{row.task} ({row.reason})" if row.winner else row.task
            by_class.setdefault(row.failure_class, []).append(what)
    leads = {
        "unclassified": "Failed in a way that nobody has classified, so not scored",
        "unreadable": "Left a result that cannot be read",
        "verifier": "Without a valid reward",
        "missing": "Planned, but without any trial",
        "setup": "Failed because of the set-up, not the model",
    }
    found = [(lead, by_class[name]) for name, lead in leads.items() if name in by_class]
    if surplus:
        found.append(("Not in the plan, so not counted", list(surplus)))
    return [f"{lead} ({_tasks(len(names))}): {_listed(names)}." for lead, names in found]


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _listed(names: Sequence[str]) -> str:
    shown = "; ".join(names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown


def dumps(document: Mapping[str, Any]) -> str:
    """The document as text: one line for each part, and for each entry of a list.

    Python's encoder indents ten times slower than it writes lines.
    """
    parts = [f"{json.dumps(key)}: {_lines(value)}" for key, value in document.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(value: Any) -> str:
    if _is_long(value):
        return "[\n " + ",\n ".join(_compact(item) for item in value) + "\n]"
    if isinstance(value, dict) and any(map(_is_long, value.values())):
        inner = [f" {json.dumps(key)}: {_lines(item)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner) + "\n}"
    return _compact(value)


def _is_long(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict | str)


_compact: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces `path` as a whole.

    Raises:
        ValueError: a number is not finite.
    """
    write_atomic(path, dumps(document))


# Half a character, written as an escape, can't be written to a file again.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def read(path: Path) -> dict[str, Any]:
    """A results document that this release understands.

    Raises:
        SpecError: it cannot be read, or is of another version; the message says what to do.
    """
    try:
        data = read_bytes(path, _MAX_BYTES)
        document = parse_object(data, path.name, parse_constant=_refuse)
    except UnreadableError as error:
        raise SpecError(f"No results in {path.parent}: {error}.") from error
    if _SURROGATE.search(data):
        document = plain(document)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise SpecError(
            f"{path} has schema_version {str(version)[:20]}; this release reads {SCHEMA_VERSION}. "
            "Write it again with `tbh score`, or use the release of tbh that made it."
        )
    if (wrong := fault(document)) is not None:
        raise SpecError(
            f"{path} is no results document: {wrong}. Write it again with `tbh score --json`."
        )
    return document
