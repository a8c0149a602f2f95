"""What `tbh score` prints: the counts, the same counts as one makes them by hand, the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any, Final

from tbh_action.durations import format_duration
from tbh_action.escape import one_line, terminal

_MANY: Final = 100
_NAME_WIDTH: Final = 60
_SIGNS: Final = {"passed": "✓", "failed": "✗", "errored": "!"}


def render(results: Mapping[str, Any]) -> str:
    """The results document as text for a terminal or a log."""
    parts = [
        _title(results),
        _outcomes(results),
        _rates(results),
        _exceptions_first(results),
        _errors(results),
        _tasks(results["tasks"]),
        [f"Warning: {_line(warning)}" for warning in results["warnings"]],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _line(text: Any) -> str:
    return terminal(one_line(str(text)))


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.1%}".replace("%", " %")


def _title(results: Mapping[str, Any]) -> list[str]:
    names = [results["model"]["name"], results["agent"]["name"], results["benchmark"]["name"]]
    known = " · ".join(_line(name) for name in names if name)
    attempts = results["n_attempts"]
    tasks = results["n_tasks"]
    size = f"{tasks} task{'s' * (tasks != 1)}" + (f" × {attempts} attempts" * (attempts > 1))
    return [" · ".join(part for part in (_line(results["run"]["name"]), size, known) if part)]


def _outcomes(results: Mapping[str, Any]) -> list[str]:
    counts = results["counts"]
    rows = [
        ("Passed", counts["passed"]),
        ("Failed", counts["failed"]),
        ("Errored (unscored)", counts["errored"]),
    ]
    total = counts["planned"]
    return [
        f"{'Outcome':<20}{'Count':>7}{f'of {total}':>12}",
        *(f"{n:<20}{k:>7}{_percent(k / total if total else None):>12}" for n, k in rows),
    ]


def _rates(results: Mapping[str, Any]) -> list[str]:
    rates, intervals, first = results["rates"], results["intervals"], results["first_pass"]
    coverage = _percent(rates["coverage"])
    rows = [
        ("All planned", rates["all"], _interval(intervals["all"])),
        ("Scored only", rates["scored"], f"{_interval(intervals['scored'])}, {coverage} scored"),
        ("First trials only", first["rate_all"], f"{first['passed']} passed, {_repeats(results)}"),
    ]
    lines = [f"{name:<20}{_percent(rate):>19}   {note}" for name, rate, note in rows]
    mean = results["mean_reward"]
    if mean["scored"] is not None and not isclose(mean["scored"], rates["scored"]):
        lines.append(
            f"{'Mean reward':<20}{mean['all']:>19.4g}   {mean['scored']:.4g} of the scored"
        )
    for k, value in results["pass_at_k"].items():
        hat = results["pass_hat_k"][k]
        lines.append(
            f"{f'pass@{k}':<20}{_percent(value['value']):>19}   all {k} of {k} pass: "
            f"{_percent(hat['value'])}"
        )
    return ["Pass rate", *lines]


def _repeats(results: Mapping[str, Any]) -> str:
    """A ledger knows every trial; a job directory only those that Harbor has not deleted."""
    known = all(row["pass"] is not None for row in results["tasks"] if row["trial"])
    return "without any repeat" if known else "as far as Harbor has kept earlier trials"


def _interval(interval: Sequence[float]) -> str:
    low, high = interval
    return f"95 % interval {_percent(low)} to {_percent(high)}"


def _exceptions_first(results: Mapping[str, Any]) -> list[str]:
    view = results["exceptions_first"]
    counts = f"passed {view['passed']} · failed {view['failed']} · errored {view['errored']}"
    rate = f"pass rate without the errored {_percent(view['rate_scored'])}"
    return ["With every exception called errored, whatever its reward", f"{counts} · {rate}"]


def _errors(results: Mapping[str, Any]) -> list[str]:
    counts: dict[tuple[str, str, str], int] = {}
    for row in results["tasks"]:
        if row["status"] == "errored" or row["exception"]:
            scored = "not scored" if row["status"] == "errored" else f"scored: {row['status']}"
            key = (_line(row["exception"] or "–"), row["class"], scored)
            counts[key] = counts.get(key, 0) + 1
    if not counts:
        return []
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    width = min(max(len(kind) for (kind, _, _), _ in ordered), _NAME_WIDTH)
    return [
        "Errors",
        *(f"{n:>5}  {kind:<{width}}  {why:<14} {scored}" for (kind, why, scored), n in ordered),
    ]


def _tasks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every row of a small result; of a large one those that did not pass, as far as they fit."""
    shown = list(rows) if len(rows) <= _MANY else [r for r in rows if r["status"] != "passed"]
    names = [_name(row) for row in shown[:_MANY]]
    width = min(max(map(len, names), default=0), _NAME_WIDTH)
    lines = [_task(row, name, width) for row, name in zip(shown, names, strict=False)]
    if hidden := len(shown) - len(lines):
        lines.append(f"… and {hidden} more that did not pass (--json has every task)")
    return lines


def _name(row: Mapping[str, Any]) -> str:
    name = _line(row["task"])
    return f"{name} #{row['attempt']}" if row["attempt"] > 1 else name


def _task(row: Mapping[str, Any], name: str, width: int) -> str:
    seconds = row["seconds"]
    time = format_duration(seconds) if seconds else "–"
    notes = [_line(row["reason"])] if row["reason"] else []
    if row["superseded"]:
        notes.append(f"{row['superseded']} earlier trial(s) do not count")
    line = f"{_SIGNS[row['status']]} {name:<{width}}  {row['status']:<8} {time:>8}  "
    return f"{line}{'; '.join(notes)}".rstrip()
