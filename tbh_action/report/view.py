"""What the reports show that results.json does not hold as such: groups, tables, order."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tbh_action.report import words
from tbh_action.report.words import Results

_FLIPS: Final = (
    "broken",
    "newly_unscored",
    "fixed",
    "newly_scored",
    "only_theirs",
    "only_ours",
)
_SEVERITY: Final = {"errored": 0, "failed": 1, "passed": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`level` is good, bad, unsure or none; `sentences` are whole ones, to be escaped."""

    level: str
    title: str
    sentences: list[str]


@dataclass(kw_only=True, slots=True)
class TaskRow:
    """One task with its attempts (rows of `tasks`, in order) and what changed, if known."""

    task: str
    attempts: list[Results] = field(default_factory=list)
    change: str = ""

    @property
    def passed(self) -> int:
        return sum(row["status"] == "passed" for row in self.attempts)

    @property
    def status(self) -> str:
        """The one status, or `mixed`."""
        found = {row["status"] for row in self.attempts}
        return str(found.pop()) if len(found) == 1 else "mixed"

    @property
    def tries(self) -> int:
        """Trials that were run, the superseded ones included."""
        return sum(
            row.get("superseded", 0) + (row.get("trial") is not None) for row in self.attempts
        )

    @property
    def worst(self) -> Results:
        """The attempt that needs an explanation most."""
        return min(self.attempts, key=lambda row: _SEVERITY.get(row["status"], 0))

    @property
    def seconds(self) -> float | None:
        return _sum(row.get("agent_seconds") or row.get("seconds") for row in self.attempts)

    @property
    def output_tokens(self) -> float | None:
        return _sum((row.get("tokens") or {}).get("output") for row in self.attempts)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def task_rows(results: Results) -> list[TaskRow]:
    """The tasks in their order, each once."""
    rows: dict[str, TaskRow] = {}
    for row in results["tasks"]:
        rows.setdefault(row["task"], TaskRow(task=row["task"])).attempts.append(row)
    for change in (results.get("comparison") or {}).get("tasks", ()):
        if change["task"] in rows:
            rows[change["task"]].change = change["change"]
    return list(rows.values())


def most_telling(tasks: list[TaskRow], limit: int) -> list[TaskRow]:
    """As many tasks as have `limit` attempts together, in their order: those that changed before
    those that did not pass, the solid ones last."""
    room = limit
    kept: set[str] = set()
    for row in sorted(tasks, key=lambda row: (row.change not in _FLIPS, row.status == "passed")):
        room -= len(row.attempts)
        if room < 0:
            break
        kept.add(row.task)
    return [row for row in tasks if row.task in kept]


def verdict(results: Results) -> Verdict:
    """What to think of it, the most important sentence first."""
    comparison, gate = results.get("comparison"), results.get("gate") or {}
    reasons = list(gate.get("reasons") or ())
    if comparison:
        reasons.append(comparison.get("reason") or "")
    reasons.append(words.incomplete(results))
    level, title = _level(results)
    if level == "none":
        reasons.append("There was no earlier run to compare with.")
    return Verdict(level=level, title=title, sentences=_unique(reasons))


def _level(results: Results) -> tuple[str, str]:
    """The level of a verdict, and its title."""
    comparison, gate = results.get("comparison"), results.get("gate") or {}
    if gate.get("failed"):
        return "bad", "Gate failed"
    if comparison:
        name = str(comparison.get("verdict"))
        title = f"{words.VERDICTS.get(name, name)} against {words.baseline_name(comparison)}"
        level = {"pass": "good", "regression": "bad"}.get(name, "unsure")
    else:
        level, title = "none", "No baseline"
    if level != "bad" and gate.get("exit_code"):
        return "unsure", "No verdict"
    if level != "bad" and words.incomplete(results):
        return "unsure", "Incomplete"
    return level, title


def _unique(sentences: list[str]) -> list[str]:
    return list(dict.fromkeys(words.sentence(text) for text in sentences if text.strip()))


def flips(results: Results) -> dict[str, list[Results]]:
    """The tasks that changed, by the title of their group, the bad news first."""
    groups: dict[str, list[Results]] = {}
    changes = (results.get("comparison") or {}).get("tasks", ())
    rows = {row.task: row for row in task_rows(results)} if changes else {}
    for change in _FLIPS:
        for entry in changes:
            if entry["change"] == change:
                row = rows.get(entry["task"])
                why = row.worst if row and change != "fixed" else None
                groups.setdefault(words.CHANGES[change], []).append({**entry, "why": why})
    return groups


def error_rows(results: Results) -> list[tuple[str, str, int]]:
    """(class, exception, how many), the most frequent class first."""
    pairs = Counter(
        (str(row["class"]), str(row["exception"] or ""))
        for row in results["tasks"]
        if row["status"] == "errored"
    )
    by_class: Counter[str] = Counter()
    for (kind, _), n in pairs.items():
        by_class[kind] += n
    return sorted(
        ((kind, name, n) for (kind, name), n in pairs.items()),
        key=lambda item: (-by_class[item[0]], item[0], -item[2], item[1]),
    )


def baseline_passed(results: Results) -> tuple[int, int] | None:
    """How many of the baseline's outcomes are passed, of how many; None without a comparison."""
    entries = [
        entry
        for entry in (results.get("comparison") or {}).get("tasks", ())
        if entry.get("theirs") is not None
    ]
    if not entries or not all(isinstance(entry["theirs"], str) for entry in entries):
        return None
    return sum(entry["theirs"] == "passed" for entry in entries), len(entries)


def matrix(results: Results) -> dict[tuple[str, str], int] | None:
    """(theirs, ours) → tasks, for the statuses passed, failed, errored; None when not known."""
    entries = (results.get("comparison") or {}).get("tasks", ())
    names = ("passed", "failed", "errored")
    found = Counter(
        (entry["theirs"], entry["ours"])
        for entry in entries
        if entry.get("theirs") in names and entry.get("ours") in names
    )
    return dict(found) or None


def histogram(values: list[float], edges: list[float]) -> list[int]:
    """How many values lie in each of the `len(edges) + 1` ranges; an edge belongs to the right."""
    counts = [0] * (len(edges) + 1)
    for value in values:
        counts[bisect_right(edges, value)] += 1
    return counts


def provenance_rows(results: Results) -> list[tuple[str, Any]]:
    """What the result rests on, as (name, value), the important ones first. What is no single
    value (the spec, the checksums of all tasks) is for machines and stays in results.json."""
    run, model, benchmark = results["run"], results["model"], results["benchmark"]
    return [
        ("Run", run["name"]),
        ("Started", words.moment(run.get("started_at"))),
        ("Finished", words.moment(run.get("finished_at"))),
        ("Model", _at(words.name_of(results, "model"), model.get("revision"))),
        ("Benchmark", _at(words.name_of(results, "benchmark"), benchmark.get("revision"))),
        ("Tasks from", benchmark.get("source")),
        ("Agent", words.name_of(results, "agent")),
        ("Fingerprint", results["fingerprint"]),
        *sorted(
            (name, value)
            for name, value in (results.get("provenance") or {}).items()
            if not isinstance(value, dict | list)
        ),
    ]


def _at(name: str, revision: str | None) -> str:
    return f"{name} @ {revision}" if revision else name
