"""How every report says a number, an outcome, a verdict: the same words in each format.

Nothing here is escaped: that is done by the format, for its own target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tbh_action.durations import format_duration

Results = Mapping[str, Any]

UNKNOWN: Final = "–"

# What a class of error means to a reader, and whether such a trial is run again.
CLASSES: Final[dict[str, str]] = {
    "timeout": "The agent ran into its time limit and nothing was left to score.",
    "agent": "The agent ended by itself and nothing was left to score.",
    "infrastructure": "A sandbox, the network or the server failed, not the model. Run again.",
    "setup": "Set up wrong: a key, a permission, a model's name, credit. Not run again.",
    "verifier": "The task's own test broke or gave no number.",
    "interrupted": "Stopped before it ended. Run again.",
    "unclassified": "An exception that no list knows. It keeps the gate from being green.",
    "unreadable": "A result file that cannot be read.",
    "missing": "Planned, and never run to an end.",
}
CHANGES: Final[dict[str, str]] = {
    "broken": "Broken",
    "fixed": "Fixed",
    "newly_unscored": "Newly unscored",
    "newly_scored": "Newly scored",
    "only_theirs": "Only in the baseline",
    "only_ours": "Only in this run",
    "still_failing": "Still failing",
    "same_pass": "Still passing",
    "unscored": "Unscored in both",
}
VERDICTS: Final[dict[str, str]] = {
    "pass": "No regression",
    "regression": "Regression",
    "inconclusive": "Inconclusive",
    "not_comparable": "Not comparable",
}


def percent(rate: float | None) -> str:
    """`0.5955` → `59.6 %`."""
    return UNKNOWN if rate is None else f"{rate * 100:.1f} %"


def points(rate: float | None) -> str:
    """A difference of rates in percentage points, always signed: `+2.2`."""
    return UNKNOWN if rate is None else f"{rate * 100:+.1f}".replace("-", "−")


def interval(bounds: Sequence[float] | None) -> str:
    """`[0.492, 0.692]` → `[49.2, 69.2]`; empty when unknown."""
    if not bounds:
        return ""
    low, high = (f"{bound * 100:.1f}".replace("-", "−") for bound in bounds)
    return f"[{low}, {high}]"


def rate(value: float | None, bounds: Sequence[float] | None) -> str:
    """A rate with its 95 % interval: `59.6 % [49.2, 69.2]`."""
    return " ".join(part for part in (percent(value), interval(bounds)) if part)


def count(number: float | None) -> str:
    """`5680000` → `5,680,000`."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def short_count(number: float | None) -> str:
    """`5680000` → `5.68 M`, three digits at most."""
    if number is None:
        return UNKNOWN
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size * 0.9995:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"


def number(value: float | None) -> str:
    """A reward or a small measure, without noise: `1`, `0.667`."""
    return UNKNOWN if value is None else f"{value:.3g}"


def p_value(value: float | None) -> str:
    """`0.0075` → `p = 0.0075`; very small ones as a bound."""
    if value is None:
        return "p unknown"
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.2g}"


def usd(amount: float | None) -> str:
    """US dollars, with more digits below ten cents."""
    if amount is None:
        return UNKNOWN
    return f"${amount:,.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.2g}"


def duration(seconds: float | None) -> str:
    """`12240` → `3h 24m`."""
    return UNKNOWN if seconds is None else format_duration(max(seconds, 0.0))


def instant(text: str | None) -> datetime | None:
    """A time stamp of results.json; without a zone it is UTC. None when it is none."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def moment(text: str | None) -> str:
    """`2026-08-01 09:30 UTC`."""
    parsed = instant(text)
    return UNKNOWN if parsed is None else f"{parsed.isoformat(' ')[:16]} UTC"


def elapsed(started_at: str | None, finished_at: str | None) -> float | None:
    """Seconds between two time stamps."""
    start, end = instant(started_at), instant(finished_at)
    return None if start is None or end is None else (end - start).total_seconds()


def known(part: Results) -> str:
    """`known for 85 of 89`; empty when it is known for all."""
    if part.get("known_for") == part.get("of"):
        return ""
    return f"known for {part.get('known_for', 0)} of {part.get('of', 0)}"


def plural(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def sentence(text: str) -> str:
    """`text` with a capital letter and an end; empty stays empty."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?…" else ".")


def name_of(results: Results, part: str) -> str:
    """The name of the `model`, `benchmark` or `agent`, in words when it is not known."""
    return str(results[part].get("name") or f"unknown {part}")


def title(results: Results) -> str:
    """What was measured: `Qwen/Qwen3.8-27B-FP8 on terminal-bench-2.1`."""
    return f"{name_of(results, 'model')} on {name_of(results, 'benchmark')}"


def headline(results: Results) -> str:
    """The answer in one sentence."""
    counts, rates, intervals = results["counts"], results["rates"], results["intervals"]
    scored = counts["passed"] + counts["failed"]
    if not counts["planned"]:
        return "No tasks were planned, so there is no score."
    if not scored:
        return f"Nothing was scored: all {counts['planned']} ended without a reward."
    sentence = (
        f"{counts['passed']} of {counts['planned']} passed — "
        f"{rate(rates['all'], intervals.get('all'))} of all"
    )
    if scored < counts["planned"]:
        sentence += f", {rate(rates['scored'], intervals.get('scored'))} of the {scored} scored"
    return sentence


def coverage(results: Results) -> str:
    """What the second rate leaves out, in words; empty when everything was scored."""
    counts = results["counts"]
    if not counts["errored"]:
        return ""
    kinds = ", ".join(f"{n} {name}" for name, n in results["errors_by_class"].items())
    return f"{counts['errored']} of {counts['planned']} could not be scored ({kinds})."


def incomplete(results: Results) -> str:
    """Why the run is no whole answer; empty when it is."""
    run = results["run"]
    if run.get("complete", True):
        return ""
    reason = str(run.get("stop_reason") or "it was stopped early").rstrip(".")
    return f"The run is incomplete: {reason}."


def outcome(row: Results) -> str:
    """A task's or trial's outcome in one word: `passed`, `failed`, or what it errored from."""
    if row["status"] != "errored":
        return str(row["status"])
    kind = str(row.get("class") or "none")
    return "errored" if kind == "none" else kind


def why(row: Results) -> str:
    """Why an attempt did not pass, in the words of its results; empty when it passed."""
    if row["status"] == "passed":
        return ""
    reason = str(row.get("reason") or "")
    return reason or (f"reward {number(row.get('reward'))}" if row["status"] == "failed" else "")


def baseline_name(comparison: Results) -> str:
    """The name of what the run is compared with."""
    baseline = comparison.get("baseline") or {}
    return str(baseline.get("name") or baseline.get("source") or "the baseline")
