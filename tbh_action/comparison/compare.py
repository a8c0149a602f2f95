"""Our run beside an earlier one: what changed, how sure that is, and a verdict in one sentence.

`compare` is a pure function from two results documents to the `comparison` part of ours. Tasks
are paired by name; only tasks that both runs scored take part in the test, every other one is
listed with what it lacks. docs/method.md has the whole method on one page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tbh_action.comparison.changes import CHANGES, Tally, changes, coverage, tally
from tbh_action.comparison.conditions import differing, is_model_side
from tbh_action.comparison.difference import Difference, paired_difference
from tbh_action.comparison.paired import mcnemar_exact

DEFAULT_ALPHA: Final = 0.05
DEFAULT_MIN_EFFECT: Final = 0.02
DEFAULT_COVERAGE_FLOOR: Final = 0.9

type Results = Mapping[str, Any]
type Verdict = Literal["pass", "regression", "inconclusive", "not_comparable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Criteria:
    """When a drop counts. All are fractions, 0 to 1.

    `alpha` is the significance level of the two-sided test, `min_effect` the smallest drop of the
    pass rate that matters, `coverage_floor` the share of planned trials that must be scored in
    either run; `force` compares runs whose measurement conditions differ.
    """

    alpha: float = DEFAULT_ALPHA
    min_effect: float = DEFAULT_MIN_EFFECT
    coverage_floor: float = DEFAULT_COVERAGE_FLOOR
    force: bool = False


def compare(
    ours: Results,
    theirs: Results,
    *,
    baseline: Mapping[str, Any],
    criteria: Criteria | None = None,
) -> dict[str, Any]:
    """The `comparison` of `ours` with the baseline `theirs`.

    `baseline` says which run `theirs` is: name, source, commit, date, fingerprint, why.
    """
    criteria = criteria or Criteria()
    our_tally, their_tally = tally(ours), tally(theirs)
    rows = changes(our_tally, their_tally)
    counts = Counter(row["change"] for row in rows)
    conditions = _Conditions.of(ours, theirs)
    forced = bool(conditions.why_not) and criteria.force
    difference = paired_difference(our_tally, their_tally, alpha=criteria.alpha)
    verdict: Verdict = "not_comparable"
    reason = conditions.why_not
    if forced or not conditions.why_not:
        verdict, reason = _verdict(our_tally, their_tally, difference, criteria)
    if forced:
        reason = f"Compared anyway, so no figure here is safe: {_lower(reason)}"
    return {
        "baseline": dict(baseline),
        "comparable": not conditions.why_not,
        "forced": forced,
        "differing_fields": conditions.measurement,
        "model_changes": conditions.model,
        "tasks": rows,
        "counts": {change: counts[change] for change in CHANGES},
        **difference.document(),
        "verdict": verdict,
        "reason": reason,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Conditions:
    """What differs between two runs; `why_not` is empty when they were measured alike."""

    measurement: list[dict[str, Any]]
    model: list[dict[str, Any]]
    why_not: str

    @classmethod
    def of(cls, ours: Results, theirs: Results) -> _Conditions:
        our_fields, their_fields = _fields(ours), _fields(theirs)
        rows = differing(our_fields, their_fields)
        measurement = [row for row in rows if not is_model_side(row["field"])]
        why_not = ""
        if not (our_fields and their_fields):
            which = "the baseline" if our_fields else "this run"
            why_not = f"The results of {which} do not say how they were measured."
        elif measurement:
            verb = "differs" if len(measurement) == 1 else "differ"
            names = _listed([row["field"] for row in measurement])
            why_not = f"The two runs were not measured alike: {names} {verb}."
        return cls(
            measurement=measurement,
            model=[row for row in rows if is_model_side(row["field"])],
            why_not=why_not,
        )


def _fields(results: Results) -> Mapping[str, Any]:
    fields = results.get("fingerprint_fields")
    return fields if isinstance(fields, Mapping) else {}


def _verdict(
    ours: Mapping[str, Tally],
    theirs: Mapping[str, Tally],
    difference: Difference,
    criteria: Criteria,
) -> tuple[Verdict, str]:
    """The verdict on two runs that were measured alike, and why in one sentence."""
    too_little = _too_little(ours, theirs, difference, criteria)
    if too_little:
        return "inconclusive", too_little
    limits = {"alpha": criteria.alpha, "min_effect": criteria.min_effect}
    what = _what_happened(difference, criteria.alpha)
    if difference.is_drop(**limits):
        return "regression", f"{what}."
    if difference.is_drop(alpha=criteria.alpha, min_effect=0.0):
        matters = _points(criteria.min_effect)
        return "pass", f"{what}, which is less than the {matters} points that matter."
    # Unscored trials must not hide a drop: the pairs leave them out.
    worst = paired_difference(
        {task: item.unscored_as_failed() for task, item in ours.items()},
        theirs,
        alpha=criteria.alpha,
    )
    if worst.is_drop(**limits):
        return "inconclusive", (
            f"{what}, but if the trials without a score had failed it would have fallen "
            f"significantly ({_p(worst.p_value)})."
        )
    return "pass", f"{what}; {_could_have_seen(difference.detectable)}."


def _too_little(
    ours: Mapping[str, Tally],
    theirs: Mapping[str, Tally],
    difference: Difference,
    criteria: Criteria,
) -> str:
    """Why no verdict is possible, or the empty string."""
    for who, tallies in (("This run", ours), ("The baseline", theirs)):
        share = coverage(tallies.values())
        if share < criteria.coverage_floor:
            return (
                f"{who} scored {share:.1%} of its planned trials, "
                f"below the floor of {criteria.coverage_floor:.1%}."
            )
    if difference.n_pairs == 0:
        return "No task was scored in both runs."
    # No p-value of either test is smaller than that of n changes in one direction.
    if mcnemar_exact(difference.n_pairs, 0) > criteria.alpha:
        return (
            f"Only {_tasks(difference.n_pairs)} scored in both runs: too few for any drop to be "
            f"significant at the level {criteria.alpha:g}."
        )
    return ""


def _what_happened(difference: Difference, alpha: float) -> str:
    assert difference.estimate is not None
    value, (low, high) = difference.estimate.value, difference.estimate.interval
    verb = "fell" if value < 0 else "rose"
    moved = f"{verb} by {_points(abs(value))} points" if value else "did not change"
    return (
        f"The pass rate {moved} ({100 * (1 - alpha):g} % interval {100 * low:+.1f} to "
        f"{100 * high:+.1f}; {difference.test} test over {_tasks(difference.n_pairs)}, "
        f"{_p(difference.p_value)})"
    )


def _could_have_seen(detectable: float | None) -> str:
    if detectable is None:
        return "with so few tasks no drop can be seen reliably"
    return f"a drop of less than {_points(detectable)} points could have been missed"


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _p(p: float) -> str:
    if p < 0.0001:
        return "p < 0.0001"
    return f"p = {p:.4f}" if p < 0.1 else f"p = {p:.2f}"


def _tasks(n: int) -> str:
    return "1 task" if n == 1 else f"{n:,} tasks"


def _listed(names: Sequence[str], limit: int = 3) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
