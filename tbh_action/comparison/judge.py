"""Comparison and gate put into a results document: the last step before the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tbh_action.comparison.baseline import Baseline
from tbh_action.comparison.compare import Criteria, compare
from tbh_action.comparison.gate import Policy, decide
from tbh_action.comparison.history import flaky_tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """All that was asked about a run: where its baseline is, when a drop counts, what fails."""

    baseline: str | None = None
    criteria: Criteria = field(default_factory=Criteria)
    policy: Policy = field(default_factory=Policy)


def judged(
    results: Mapping[str, Any], baseline: Baseline | None, judgement: Judgement
) -> dict[str, Any]:
    """A copy of `results` with `comparison`, `gate` and `flaky` filled in, and its warnings.

    `baseline` is None when none was asked for. Judging again gives the same document.
    """
    comparison = None
    flaky: list[str] = []
    warnings = list(results.get("warnings") or [])
    if baseline is not None:
        flaky = [row["task"] for row in flaky_tasks(baseline.history)]
        notes = list(baseline.problems)
        if baseline.run is None:
            notes.append(f"Nothing was compared: {baseline.why}")
        else:
            comparison = compare(
                results,
                baseline.run.results,
                baseline=baseline.document(),
                criteria=judgement.criteria,
            )
        warnings += [note for note in notes if note not in warnings]
    lost = baseline.why if baseline is not None and baseline.unavailable else ""
    gate = decide(results, comparison, judgement.policy, flaky=flaky, lost_baseline=lost)
    return {
        **results,
        "comparison": comparison,
        "gate": gate.document(),
        "flaky": flaky,
        "warnings": warnings,
    }
