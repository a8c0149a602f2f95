"""A judged results document as lines for a terminal: verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tbh_action.escape import terminal

_HEADINGS: Final = {
    "broken": "Broken",
    "fixed": "Fixed",
    "newly_unscored": "Newly unscored (no score here, one in the baseline)",
    "newly_scored": "Newly scored (no score in the baseline)",
    "still_failing": "Still failing",
    "unscored": "Unscored in both",
    "only_ours": "Only in this run",
    "only_theirs": "Only in the baseline",
}
# What did not change is counted; naming all of it would bury what did.
_COUNTED: Final = {"still_failing": "still failing", "same_pass": "still passing"}
_LISTED: Final = 50
_VERDICTS: Final = {
    "pass": "PASS",
    "regression": "REGRESSION",
    "inconclusive": "INCONCLUSIVE",
    "not_comparable": "NOT COMPARABLE",
}


def comparison_lines(document: Mapping[str, Any]) -> list[str]:
    """Comparison, gate and warnings of `document`, each line safe to print."""
    return [terminal(line).replace("\n", " ") for line in _lines(document)]


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    comparison = document["comparison"]
    if comparison is not None:
        yield from _verdict(comparison)
        yield from _baseline(comparison["baseline"])
        yield from _fields("Measured differently", comparison["differing_fields"])
        yield from _fields("The model under test", comparison["model_changes"])
        yield from _tasks(comparison, mark=" (compared anyway)" if comparison["forced"] else "")
    if document["flaky"]:
        yield ""
        yield f"Known to be flaky: {', '.join(document['flaky'])}"
    yield ""
    yield from _gate(document["gate"])
    yield from (f"Warning: {text}" for text in document["warnings"])


def _verdict(comparison: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_VERDICTS[comparison['verdict']]}: {comparison['reason']}"


def _baseline(baseline: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"Baseline: {baseline['name']} ({baseline['source']})"
    fingerprint = str(baseline["fingerprint"] or "")[:12] or "unknown"
    commit, date = baseline["commit"] or "unknown", baseline["date"] or "unknown"
    yield f"  revision {commit}, {date}, fingerprint {fingerprint}"
    yield f"  {baseline['why']}"


def _fields(heading: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if rows:
        yield ""
        yield f"{heading}:"
        yield from (f"  {row['field']}: {row['theirs']} → {row['ours']}" for row in rows)


def _tasks(comparison: Mapping[str, Any], mark: str) -> Iterator[str]:
    for change, heading in _HEADINGS.items():
        rows = [row for row in comparison["tasks"] if row["change"] == change]
        if rows and change not in _COUNTED:
            yield ""
            yield f"{heading}, {len(rows)}{mark}:"
            yield from (_task(row) for row in rows[:_LISTED])
            if len(rows) > _LISTED:
                yield f"  … and {len(rows) - _LISTED} more (--json names all)"
    counted = [f"{comparison['counts'][key]} {words}" for key, words in _COUNTED.items()]
    yield ""
    yield f"{', '.join(counted)}{mark}."


def _task(row: Mapping[str, Any]) -> str:
    if row["ours"] is None or row["theirs"] is None:
        return f"  {row['task']}: {row['ours'] or row['theirs']}"
    return f"  {row['task']}: {row['theirs']} → {row['ours']}"


def _gate(gate: Mapping[str, Any]) -> Iterator[str]:
    outcome = {0: "passed", 1: "FAILED", 4: "no safe answer"}[gate["exit_code"]]
    yield f"Gate ({gate['fail_on']}): {outcome}"
    yield from (f"  {reason}" for reason in gate["reasons"])
