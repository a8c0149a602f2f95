"""What happened to each task between two runs: fixed, broken, newly unscored, only in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

# In the order of a reader's interest.
CHANGES: Final = (
    "broken",
    "fixed",
    "newly_unscored",
    "newly_scored",
    "still_failing",
    "unscored",
    "only_ours",
    "only_theirs",
    "same_pass",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """One task's attempts in one run: how many were planned, scored, passed."""

    planned: int
    scored: int
    passed: int

    @property
    def rate(self) -> Fraction | None:
        return Fraction(self.passed, self.scored) if self.scored else None

    @property
    def words(self) -> str:
        """`passed`, `failed`, `errored`; with several attempts `3 of 5 passed, 1 errored`."""
        if self.planned == 1:
            return "passed" if self.passed else "failed" if self.scored else "errored"
        errored = self.planned - self.scored
        text = f"{self.passed} of {self.planned} passed"
        return f"{text}, {errored} errored" if errored else text

    def unscored_as_failed(self) -> Tally:
        return replace(self, scored=self.planned)


def tally(results: Mapping[str, Any]) -> dict[str, Tally]:
    """Each planned task's attempts, in the order of the results document."""
    planned: Counter[str] = Counter()
    scored: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for row in results["tasks"]:
        planned[row["task"]] += 1
        scored[row["task"]] += row["status"] in ("passed", "failed")
        passed[row["task"]] += row["status"] == "passed"
    return {
        task: Tally(planned=count, scored=scored[task], passed=passed[task])
        for task, count in planned.items()
    }


def coverage(tallies: Iterable[Tally]) -> float:
    """The share of planned trials that were scored; 0 when none was planned."""
    planned = scored = 0
    for item in tallies:
        planned += item.planned
        scored += item.scored
    return scored / planned if planned else 0.0


def change_of(ours: Tally | None, theirs: Tally | None) -> str:
    """What happened to one task. With several attempts a task passes when at least half do."""
    if theirs is None:
        return "only_ours"
    if ours is None:
        return "only_theirs"
    if ours.rate is None:
        return "unscored" if theirs.rate is None else "newly_unscored"
    if theirs.rate is None:
        return "newly_scored"
    now, before = 2 * ours.rate >= 1, 2 * theirs.rate >= 1
    if now == before:
        return "same_pass" if now else "still_failing"
    return "fixed" if now else "broken"


def changes(ours: Mapping[str, Tally], theirs: Mapping[str, Tally]) -> list[dict[str, Any]]:
    """One row for each task of either run (`comparison.tasks`): by interest, then by name."""
    rows = [
        {
            "task": task,
            "change": change_of(ours.get(task), theirs.get(task)),
            "ours": ours[task].words if task in ours else None,
            "theirs": theirs[task].words if task in theirs else None,
        }
        for task in ours.keys() | theirs.keys()
    ]
    return sorted(rows, key=lambda row: (CHANGES.index(str(row["change"])), str(row["task"])))
