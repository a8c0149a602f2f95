"""Does the check fail: a pure decision from results and comparison to an exit code with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tbh_action.comparison.changes import coverage, tally
from tbh_action.comparison.compare import DEFAULT_COVERAGE_FLOOR
from tbh_action.errors import EXIT_GATE_FAILED, EXIT_INCOMPLETE, SpecError

type Kind = Literal["regression", "any-drop", "below", "never"]

_NAMED: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class FailOn:
    """What fails the check. `threshold` (0 to 1) belongs to `below` only."""

    kind: Kind
    threshold: float = 0.0

    def __str__(self) -> str:
        return f"below:{self.threshold:g}" if self.kind == "below" else self.kind


def parse_fail_on(text: str) -> FailOn:
    """`regression`, `any-drop`, `below:0.55`, `below:55%` or `never`.

    Raises:
        SpecError: anything else.
    """
    match text.strip().split(":", 1):
        case ["regression" | "any-drop" | "never" as kind]:
            return FailOn(kind=kind)
        case ["below", number]:
            threshold = _fraction(number.strip())
            if threshold is not None:
                return FailOn(kind="below", threshold=threshold)
    raise SpecError(
        f"--fail-on {text!r} is not known; give regression, any-drop, below:0.55 or never."
    )


def _fraction(text: str) -> float | None:
    """A number from 0 to 1, also as a percentage; None for anything else, NaN included."""
    try:
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What fails the check, and how much of the run must be scored for any answer."""

    fail_on: FailOn = FailOn(kind="regression")
    coverage_floor: float = DEFAULT_COVERAGE_FLOOR


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """The decision: `exit_code` is 0, 1 (failed) or 4 (no safe answer); reasons are sentences."""

    fail_on: str
    failed: bool
    exit_code: int
    reasons: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The `gate` of a results document."""
        return {
            "fail_on": self.fail_on,
            "failed": self.failed,
            "exit_code": self.exit_code,
            "reasons": list(self.reasons),
        }


def decide(
    results: Mapping[str, Any],
    comparison: Mapping[str, Any] | None,
    policy: Policy,
    *,
    flaky: Sequence[str] = (),
    lost_baseline: str = "",
) -> Gate:
    """Whether the check fails.

    Bad news (exit 1) wins over doubt (exit 4), and doubt over green. `flaky` tasks are named where
    they broke; they count like any other. `lost_baseline` says why a baseline that was asked for
    could not be read. With `never` the exit code is 0 and the doubts are
    still listed.
    """
    failures, doubts, notes = _answer(results, comparison, policy, lost_baseline)
    doubts = [*doubts, *_doubts_about_run(results, policy)]
    notes = [*notes, *_about_flaky(comparison, flaky)]
    never = policy.fail_on.kind == "never"
    failed = bool(failures) and not never
    code = 0
    if not never:
        code = EXIT_GATE_FAILED if failures else EXIT_INCOMPLETE if doubts else 0
    return Gate(
        fail_on=str(policy.fail_on),
        failed=failed,
        exit_code=code,
        reasons=tuple(dict.fromkeys([*failures, *doubts, *notes])),
    )


type _Sentences = tuple[list[str], list[str], list[str]]


def _answer(
    results: Mapping[str, Any],
    comparison: Mapping[str, Any] | None,
    policy: Policy,
    lost_baseline: str,
) -> _Sentences:
    """Failures, doubts and notes that follow from what the gate was asked."""
    kind = policy.fail_on.kind
    if kind == "below":
        return _below(results, policy)
    if comparison is None:
        if lost_baseline:
            return [], [lost_baseline], []
        return [], [], [] if kind == "never" else ["There was no earlier run to compare with."]
    return _compared(comparison, kind)


def _compared(comparison: Mapping[str, Any], kind: Kind) -> _Sentences:
    reason, verdict = str(comparison["reason"]), comparison["verdict"]
    if verdict in ("inconclusive", "not_comparable"):
        return [], [reason], []
    if verdict == "regression":
        return [reason], [], []
    drop = comparison["difference"]["value"]
    if kind == "any-drop" and drop is not None and drop < 0:
        return [f"Any drop fails this gate. {reason}"], [], []
    return [], [], [reason]


def _below(results: Mapping[str, Any], policy: Policy) -> _Sentences:
    """The share of all planned trials that passed against the threshold: errors count as failed."""
    items = tally(results).values()
    planned, passed = sum(t.planned for t in items), sum(t.passed for t in items)
    threshold = policy.fail_on.threshold
    text = f"{passed} of {planned} planned trials passed"
    if planned == 0:
        return [], ["No trial was planned."], []
    if passed / planned >= threshold:
        return [], [], [f"{text}, at least the asked {threshold:.1%}."]
    if coverage(items) < policy.coverage_floor:
        # The trials without a score could be what is missing: that is no bad news about the model.
        return [], [f"{text}, below {threshold:.1%}, but too few were scored."], []
    return [f"{text}, below {threshold:.1%}."], [], []


def _doubts_about_run(results: Mapping[str, Any], policy: Policy) -> list[str]:
    doubts = []
    planned = tally(results)
    share = coverage(planned.values())
    # An empty shard has nothing to cover: its siblings answer.
    if planned and share < policy.coverage_floor:
        doubts.append(
            f"This run scored {share:.1%} of its planned trials, "
            f"below the floor of {policy.coverage_floor:.1%}."
        )
    if not results["run"]["complete"]:
        why = results["run"].get("stop_reason")
        doubts.append(f"The run is incomplete: {str(why or 'it was stopped early').rstrip('.')}.")
    unclassified = [row["task"] for row in results["tasks"] if row["class"] == "unclassified"]
    if unclassified:
        doubts.append(
            f"{_count(len(unclassified), 'failure')} of no known class, which must be looked at "
            f"before this can be green: {_names(unclassified)}."
        )
    return doubts


def _about_flaky(comparison: Mapping[str, Any] | None, flaky: Sequence[str]) -> list[str]:
    if not flaky or comparison is None:
        return []
    known = frozenset(flaky)
    broken = [row["task"] for row in comparison["tasks"] if row["change"] == "broken"]
    both = [task for task in broken if task in known]
    if not both:
        return []
    text = (
        f"{len(both)} of {_count(len(broken), 'broken task')} passed and failed in earlier runs "
        f"under the same conditions too; they count all the same: {_names(both)}."
    )
    return [text]


def _count(n: int, noun: str) -> str:
    return f"1 {noun}" if n == 1 else f"{n} {noun}s"


def _names(tasks: Sequence[str]) -> str:
    unique = list(dict.fromkeys(tasks))
    shown = ", ".join(unique[:_NAMED])
    return f"{shown} and {len(unique) - _NAMED} more" if len(unique) > _NAMED else shown
