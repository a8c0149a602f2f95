"""Which ten lines of a result stand beside the run: the verdict, what broke, what is unexplained.

Pure: results in, annotations out, most telling first within each level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tbh_action.escape import one_line, shorten
from tbh_action.github.runner import ANNOTATIONS_PER_LEVEL, Annotation, Level

_LONGEST = 300


def choose(results: Mapping[str, Any]) -> list[Annotation]:
    """At most ten annotations of each level for a `results.json` document."""
    chosen = [
        _verdict(results),
        *(_annotation("error", "Broken since the baseline", text) for text in _broken(results)),
        *(_annotation("warning", "Unclassified failure", text) for text in _unclassified(results)),
        *(
            _annotation("warning", "Check this", str(text))
            for text in results.get("warnings") or []
        ),
    ]
    levels: tuple[Level, ...] = ("error", "warning", "notice")
    return [item for level in levels for item in _limited(level, chosen)]


def headline(results: Mapping[str, Any]) -> str:
    """The result in one line of plain text: `53 of 89 passed (59.6 %), 16 failed, 20 errored`."""
    counts = results.get("counts") or {}
    rate = (results.get("rates") or {}).get("all")
    share = "" if rate is None else f" ({rate * 100:.1f} %)"
    return (
        f"{counts.get('passed', 0)} of {counts.get('planned', 0)} passed{share}, "
        f"{counts.get('failed', 0)} failed, {counts.get('errored', 0)} errored"
    )


def _verdict(results: Mapping[str, Any]) -> Annotation:
    gate = results.get("gate") or {}
    comparison = results.get("comparison") or {}
    run = results.get("run") or {}
    reasons = [str(reason) for reason in gate.get("reasons") or []]
    reason = "; ".join(reasons) or str(comparison.get("reason") or "")
    text = headline(results) + (f". {reason}" if reason else "")
    if gate.get("failed"):
        return _annotation("error", "Terminal-Bench: the gate failed", text)
    if not run.get("complete", True):
        stop = run.get("stop_reason")
        text = f"{text}. {stop}" if stop else text
        return _annotation("warning", "Terminal-Bench: not complete", text)
    if comparison.get("verdict") in ("regression", "inconclusive", "not_comparable"):
        verdict = str(comparison["verdict"]).replace("_", " ")
        return _annotation("warning", f"Terminal-Bench: {verdict}", text)
    return _annotation("notice", "Terminal-Bench", text)


def _broken(results: Mapping[str, Any]) -> Iterator[str]:
    comparison = results.get("comparison") or {}
    # Only a failed gate makes flips an error: single flips happen without a regression.
    if not (results.get("gate") or {}).get("failed"):
        return
    for row in comparison.get("tasks") or []:
        if row.get("change") == "broken":
            yield f"{row.get('task')}: {row.get('theirs')} → {row.get('ours')}"


def _unclassified(results: Mapping[str, Any]) -> Iterator[str]:
    for row in results.get("tasks") or []:
        if row.get("class") == "unclassified":
            yield f"{row.get('task')}: {row.get('exception')} – {row.get('reason')}"


def _limited(level: Level, chosen: list[Annotation]) -> list[Annotation]:
    """Those of one level: all of them, or the first nine and a last one that counts the rest."""
    ours = [item for item in chosen if item.level == level]
    if len(ours) <= ANNOTATIONS_PER_LEVEL:
        return ours
    kept = ours[: ANNOTATIONS_PER_LEVEL - 1]
    return [*kept, _annotation(level, "More", f"{len(ours) - len(kept)} more: see the report.")]


def _annotation(level: Level, title: str, message: str) -> Annotation:
    return Annotation(level=level, title=title, message=shorten(one_line(message), _LONGEST))
