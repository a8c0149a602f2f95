"""A published result checked: the score is computed again from the bundle's trials.

It proves that files and numbers agree with each other, that nothing was lost or added since the
bundle was made, and that the run was asked what it says. It can't prove that the trials happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from tbh_action.controller.spec_file import learned
from tbh_action.errors import SpecError
from tbh_action.harbor.documents import UnreadableError, instant, mapping, read_object
from tbh_action.harbor.tasks import TaskList
from tbh_action.policy.shard import parse_shard, tasks_of_shard
from tbh_action.publishing.bundle import MANIFEST, MANIFEST_VERSION, file_facts
from tbh_action.rundir import RunDir
from tbh_action.scoring import results
from tbh_action.scoring.combine import facts_of_results, plan_of_results
from tbh_action.scoring.failures import Interval
from tbh_action.scoring.fingerprint import fingerprint_of
from tbh_action.scoring.ledger import Attempt, read_attempts, unrecorded
from tbh_action.scoring.outcomes import plan_of

_MANIFEST_BYTES: Final = 256 * 1024 * 1024
# Texts may have been masked; where a trial ran and what was decided of it are checked elsewhere.
_NOT_IN_TRIAL: Final = frozenset(
    {"message", "reason", "cause", "retryable", "pass_number", "directory", "task_from"}
)
_FIGURES: Final = (
    *("n_attempts", "n_tasks", "counts", "rates", "intervals", "mean_reward", "exceptions_first"),
    *("scored_after_exception", "errors", "errors_by_class", "first_pass", "pass_at_k"),
    *("pass_hat_k", "tokens", "seconds", "cost"),
)
_TEXTS: Final = frozenset({"reason", "message", "log_tail", "superseded_trials"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What does not agree, one sentence each; `notes` are what could not be checked."""

    name: str
    trials: int
    rate: float | None
    differences: tuple[str, ...]
    notes: tuple[str, ...]


def verify(root: Path) -> Verification:
    """Checks the bundle in the directory `root`.

    Raises:
        SpecError: it holds no results.json that can be read.
    """
    if not root.is_dir():
        raise SpecError(f"{root} is no directory; give a bundle that `tbh publish` made.")
    bundle = RunDir(root.resolve())
    if bundle.state.exists() and not (root / MANIFEST).exists():
        raise SpecError(
            f"{root} is a run of this machine: only what `tbh publish` made can be verified. "
            "`tbh score` counts a run's trials again."
        )
    document = results.read(bundle.results)
    ledger = {attempt.trial: attempt for attempt in read_attempts(bundle.attempts)}
    found = {attempt.trial: attempt for attempt in _found(bundle, document, ledger)}
    notes: list[str] = []
    differences = [*_manifest(bundle), *_question(bundle, document)]
    differences += _ledger(ledger, found, notes)
    differences += _recomputed(document, found, ledger)
    rate = mapping(document["rates"]).get("all")
    return Verification(
        name=str(document["run"].get("name")),
        trials=len(found),
        rate=rate if isinstance(rate, int | float) else None,
        differences=tuple(differences),
        notes=tuple(notes),
    )


def _manifest(bundle: RunDir) -> Iterator[str]:
    """Files that are not the published ones."""
    try:
        manifest = read_object(bundle.root / MANIFEST, _MANIFEST_BYTES)
    except UnreadableError as error:
        yield f"{error}: it can't be told whether files were changed"
        return
    if manifest.get("version") != MANIFEST_VERSION:
        yield f"{MANIFEST} is of version {manifest.get('version')!r}, not {MANIFEST_VERSION}"
        return
    listed = mapping(manifest.get("files"))
    present = dict(file_facts(bundle.root))
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            yield f"{name} is in the manifest, but not here"
        elif name not in listed:
            yield f"{name} is here, but not in the manifest"
        elif mapping(listed[name]).get("sha256") != present[name][0]:
            yield f"{name} was changed: it has another SHA-256 than in the manifest"


def _question(bundle: RunDir, document: Mapping[str, Any]) -> Iterator[str]:
    """Fingerprints, and the tasks that the run was asked for."""
    asked = _optional(bundle.spec)
    for name, place in (("results.json", document), ("spec.json", asked)):
        if place and fingerprint_of(mapping(place.get("fingerprint_fields"))) != place.get(
            "fingerprint"
        ):
            yield f"{name}: the fingerprint is not that of its fields"
    if asked and asked.get("fingerprint") != document.get("fingerprint"):
        yield "results.json has another fingerprint than spec.json"
    tasks = _tasks(bundle)
    if tasks is None:
        return
    fields_ = mapping(document.get("fingerprint_fields"))
    for key, value in learned(tasks).items():
        if key in fields_ and fields_[key] != value:
            yield (
                f"tasks.json gives {key} {_shown(value)}, the fingerprint says "
                f"{_shown(fields_[key])}"
            )
    names = [task.name for task in tasks.tasks]
    if asked.get("shard"):
        names = tasks_of_shard(names, parse_shard(str(asked["shard"])))
    n_attempts = fields_.get("n_attempts", document.get("n_attempts"))
    if isinstance(n_attempts, int):
        yield from _plan(plan_of(names, n_attempts).slots, document)


def _tasks(bundle: RunDir) -> TaskList | None:
    try:
        return TaskList.from_json(_optional(bundle.tasks))
    except (KeyError, TypeError, AttributeError):
        return None


def _plan(planned: Mapping[str, int], document: Mapping[str, Any]) -> Iterator[str]:
    rows = plan_of_results(document).slots
    for task in sorted(planned.keys() | rows.keys()):
        if planned.get(task, 0) != rows.get(task, 0):
            yield (
                f"results.json: {task} has {rows.get(task, 0)} rows, {planned.get(task, 0)} were "
                "planned"
            )


def _optional(path: Path) -> dict[str, Any]:
    try:
        return read_object(path, _MANIFEST_BYTES)
    except UnreadableError:
        return {}


def _found(
    bundle: RunDir, document: Mapping[str, Any], ledger: Mapping[str, Attempt]
) -> list[Attempt]:
    """The trials as their files tell them, judged with the outages that were published."""
    outages = [
        Interval(start=start, end=end, reason=str(item.get("reason")))
        for item in mapping(document.get("timeline")).get("outages") or ()
        if (start := instant(mapping(item).get("started_at")))
        and (end := instant(item.get("finished_at")))
    ]
    found = unrecorded(bundle, frozenset(), pass_number=None, outages=outages)
    # Only the ledger knows which pass made a trial that still lies in the job.
    return [
        replace(attempt, pass_number=ledger[attempt.trial].pass_number)
        if attempt.pass_number is None and attempt.trial in ledger
        else attempt
        for attempt in found
    ]


def _ledger(
    ledger: Mapping[str, Attempt], found: Mapping[str, Attempt], notes: list[str]
) -> Iterator[str]:
    """Trials that were added or removed, and lines that say another thing than their trial."""
    unproven = 0
    for trial in sorted(ledger.keys() | found.keys()):
        if trial not in ledger:
            yield f"{trial}: the trial is here, but not in attempts.jsonl"
        elif trial not in found:
            if _leaves_nothing(ledger[trial]):
                unproven += 1
            else:
                yield f"{trial}: it is in attempts.jsonl, but its result is not here"
        elif _moved(ledger[trial], found[trial]):
            notes.append(
                f"{trial}: called infrastructure for an outage that the bundle does not show"
            )
        else:
            yield from _line(ledger[trial], found[trial])
    if unproven:
        notes.append(f"{unproven} trials were interrupted and left no result; they score nothing.")


def _leaves_nothing(attempt: Attempt) -> bool:
    return attempt.failure_class in ("interrupted", "unreadable") and not attempt.scored


def _moved(line: Attempt, trial: Attempt) -> bool:
    """Whether an outage, which only the run's own process saw, made it infrastructure."""
    return (
        line.failure_class == "infrastructure"
        and not line.scored
        and trial.failure_class in ("timeout", "setup")
        and line == replace(line, **_values(trial, skip={"failure_class", "scored"}))
    )


def _line(line: Attempt, trial: Attempt) -> Iterator[str]:
    for name, value in _values(trial, skip=set()).items():
        if name == "task" and trial.task_from != "result.json":
            continue
        if getattr(line, name) != value:
            yield (
                f"{line.trial}: attempts.jsonl says {name} is {_shown(getattr(line, name))}, its "
                f"result says {_shown(value)}"
            )


def _values(attempt: Attempt, *, skip: set[str]) -> dict[str, Any]:
    names = {field.name for field in fields(Attempt)} - _NOT_IN_TRIAL - skip
    return {name: getattr(attempt, name) for name in sorted(names)}


def _recomputed(
    document: Mapping[str, Any], found: Mapping[str, Attempt], ledger: Mapping[str, Attempt]
) -> Iterator[str]:
    """Figures and rows that the trials don't give."""
    attempts = [
        ledger[trial] if trial in ledger and _moved(ledger[trial], attempt) else attempt
        for trial, attempt in found.items()
    ]
    attempts += [
        attempt
        for trial, attempt in ledger.items()
        if trial not in found and _leaves_nothing(attempt)
    ]
    again = results.build(facts_of_results(document), plan_of_results(document), attempts)
    for key in _FIGURES:
        yield from _unlike(key, document.get(key), again[key])
    for ours, theirs in zip(again["tasks"], _rows(document), strict=True):
        name = f"{ours['task']} #{ours['attempt']}"
        for key in ours:
            if key == "superseded_trials":
                yield from _superseded(name, theirs.get(key), ours[key])
            elif key not in _TEXTS:
                yield from _unlike(f"{name}: {key}", theirs.get(key), ours[key])
    yield from _unlike(
        "timeline.trials",
        sorted(item["trial"] for item in document["timeline"]["trials"]),
        sorted(item["trial"] for item in again["timeline"]["trials"]),
    )


def _rows(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return sorted(document["tasks"], key=lambda row: (row["task"], row["attempt"]))


def _superseded(name: str, theirs: Any, ours: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    def plain(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in row.items() if key != "reason"} for row in rows]

    yield from _unlike(f"{name}: superseded_trials", plain(theirs or ()), plain(ours))


def _unlike(place: str, theirs: Any, ours: Any) -> Iterator[str]:
    """A line for each value of `ours` that `theirs` does not have."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _unlike(f"{place}.{key}", theirs.get(key), ours.get(key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _unlike(f"{place}[{number}]", other, mine)
    elif not _equal(theirs, ours):
        yield f"results.json: {place} is {_shown(theirs)}, the trials say {_shown(ours)}"


def _equal(theirs: Any, ours: Any) -> bool:
    numbers = isinstance(ours, int | float) and isinstance(theirs, int | float)
    if numbers and not isinstance(ours, bool) and not isinstance(theirs, bool):
        return math.isclose(theirs, ours, rel_tol=1e-9, abs_tol=1e-12)
    return bool(type(theirs) is type(ours) and theirs == ours)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"
