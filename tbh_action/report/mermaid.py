"""Charts for Markdown: GitHub draws Mermaid, and removes SVG and images from data URIs."""

from __future__ import annotations

import json
from typing import Any, Final

from tbh_action.escape import markdown_fence, mermaid
from tbh_action.report import view, words
from tbh_action.report.words import Results

_EDGES: Final = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0)
_LABELS: Final = ("under 1 min", "1-5", "5-15", "15-30", "30-60", "1-2 h", "over 2 h")
# The page's colours; for what could not be scored, shades of grey in the order of their number.
_PASSED: Final = "#2a8f6d"
_FAILED: Final = "#c8501e"
_GREYS: Final = ("#6b7280", "#8d94a3", "#a9afbb", "#565c68")


def outcomes_chart(results: Results) -> str:
    """A pie of all planned trials by outcome; empty when there is none."""
    counts = results["counts"]
    slices = [("passed", counts["passed"], _PASSED), ("failed", counts["failed"], _FAILED)]
    for index, (kind, number) in enumerate(results["errors_by_class"].items()):
        name = words.outcome({"status": "errored", "class": kind})
        slices.append((name, number, _GREYS[index % len(_GREYS)]))
    # Mermaid gives out its colours by size, so the slices are put in that order.
    shown = sorted((part for part in slices if part[1] > 0), key=lambda part: -part[1])
    if len(shown) < 2:
        return ""
    style: dict[str, Any] = {f"pie{n}": part[2] for n, part in enumerate(shown, start=1)}
    style |= {"pieSectionTextColor": "#fff", "pieOpacity": "1", "pieStrokeColor": "#fff"}
    style |= {"pieStrokeWidth": "1px", "pieOuterStrokeWidth": "0"}
    lines = [f'  "{mermaid(name)}" : {number}' for name, number, _ in shown]
    return _chart(style, [f"pie showData title All {counts['planned']} by outcome", *lines])


def time_chart(results: Results) -> str:
    """Bars: how many tasks took the agent how long; empty when no time is known."""
    known = [row["agent_seconds"] for row in results["tasks"] if row.get("agent_seconds")]
    if len(known) < 2:
        return ""
    bars = view.histogram(known, list(_EDGES))
    labels = ", ".join(f'"{label}"' for label in _LABELS)
    lines = [
        "xychart-beta",
        '  title "Time that the agent took"',
        f"  x-axis [{labels}]",
        f'  y-axis "Trials" 0 --> {max(bars)}',
        f"  bar [{', '.join(str(number) for number in bars)}]",
    ]
    return _chart(
        {"xyChart": {"plotColorPalette": _PASSED, "backgroundColor": "transparent"}}, lines
    )


def _chart(style: dict[str, Any], lines: list[str]) -> str:
    """No theme is named: GitHub chooses the light or the dark one, and text stays readable."""
    directive = json.dumps({"themeVariables": style})
    return markdown_fence("\n".join([f"%%{{init: {directive}}}%%", *lines]), "mermaid")
