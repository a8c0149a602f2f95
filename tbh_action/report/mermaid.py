"""Charts for Markdown: GitHub draws Mermaid, and removes SVG and images from data URIs."""

from __future__ import annotations

from typing import Final

from tbh_action.escape import markdown_fence, mermaid
from tbh_action.report import view, words
from tbh_action.report.words import Results

_EDGES: Final = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0)
_LABELS: Final = ("under 1 min", "1-5", "5-15", "15-30", "30-60", "1-2 h", "over 2 h")


def outcomes_chart(results: Results) -> str:
    """A pie of all planned trials by outcome; empty when there is none."""
    counts = results["counts"]
    slices = {"passed": counts["passed"], "failed": counts["failed"]}
    for kind, number in results["errors_by_class"].items():
        slices[words.outcome({"status": "errored", "class": kind})] = number
    lines = [f'  "{mermaid(name)}" : {number}' for name, number in slices.items() if number > 0]
    if len(lines) < 2:
        return ""
    title = f"All {counts['planned']} by outcome"
    return markdown_fence("\n".join([f"pie showData title {title}", *lines]), "mermaid")


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
    return markdown_fence("\n".join(lines), "mermaid")
