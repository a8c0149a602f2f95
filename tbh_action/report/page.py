"""index.html: the whole report in one file that asks the network for nothing.

The page works without scripts (all tasks are rows of a table); the script sorts, filters and
opens a task's attempts. Its content policy allows this one script, by hash, and no request at all,
so that even a text that slipped through escaping could neither run nor load anything.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

import tbh_action
from tbh_action import escape
from tbh_action.report import charts, view, words
from tbh_action.report.reproduce import EXACT_COMMAND, run_command, run_commands
from tbh_action.report.words import Results

_HERE: Final = Path(__file__).parent
# The ends of all logs together; beyond it each is shorter, the passed ones first.
_LOG_BUDGET: Final = 6_000_000
_LOG: Final = 6000
_MESSAGE_BUDGET: Final = 6_000_000
_MESSAGE: Final = 2000
# Trials in the table of tasks; a browser takes a second for more.
_MOST_TRIALS: Final = 20_000
_MINUTE: Final = 60.0
_TIME_EDGES: Final = tuple(n * _MINUTE for n in (1, 2, 5, 10, 20, 40, 80, 160))
_TIME_LABELS: Final = ["<1", "1–2", "2–5", "5–10", "10–20", "20–40", "40–80", "–160", "160+"]
_TOKEN_EDGES: Final = tuple(n * 1000.0 for n in (2, 5, 10, 20, 50, 100, 200, 500))
_TOKEN_LABELS: Final = ["<2", "2–5", "5–10", "10–20", "20–50", "–100", "–200", "–500", "500+"]


def render(results: Results) -> str:
    """The page. Its size is bounded: of each trial about 0.5 kB, for 20,000 of them at most, and
    6 MB each of logs and messages."""
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    every = view.task_rows(results)
    tasks = view.most_telling(every, _MOST_TRIALS)
    data = escape.json_script(_data(results, tasks))
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            **_context(results, tasks),
            left_out=len(every) - len(tasks),
            style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),  # noqa: S704 (ours)
            script=Markup(script),  # noqa: S704 (ours)
            script_hash=digest,
            data=Markup(data),  # noqa: S704 (escape.json_script)
        )
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        function.__name__: function
        for function in (
            words.percent,
            words.points,
            words.interval,
            words.number,
            words.count,
            words.short_count,
            words.usd,
            words.duration,
            words.moment,
            words.p_value,
            words.outcome,
            words.sentence,
            words.why,
        )
    }
    environment.filters["line"] = lambda value: escape.one_line("" if value is None else str(value))
    return environment


def _finalize(value: Any) -> Markup:
    """What `{{ value }}` prints: escaped, unless it was made by charts or is a part of the page."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup(words.UNKNOWN)  # noqa: S704 (a constant)
    return Markup(escape.html(str(value)))  # noqa: S704 (escaped here)


def _context(results: Results, tasks: list[view.TaskRow]) -> dict[str, Any]:
    rows = results["tasks"]
    index = {row.task: number for number, row in enumerate(tasks)}
    return {
        "results": results,
        "title": words.title(results),
        "model": words.name_of(results, "model"),
        "benchmark": words.name_of(results, "benchmark"),
        "headline": words.headline(results),
        "coverage": words.coverage(results),
        "verdict": view.verdict(results),
        "scales": _scales(results),
        "strip": _svg(charts.outcome_strip(results)),
        "timeline": _svg(charts.timeline(results)),
        "most_drawn": charts.MOST,
        "times": _svg(charts.histogram(rows, "agent_seconds", _TIME_EDGES, _TIME_LABELS)),
        "tokens": _svg(charts.histogram(rows, "output_tokens", _TOKEN_EDGES, _TOKEN_LABELS)),
        "time_marks": charts.quantiles(rows, "agent_seconds"),
        "token_marks": charts.quantiles(rows, "output_tokens"),
        "flips": view.flips(results),
        "matrix": view.matrix(results),
        "baseline": (results.get("comparison") or {}).get("baseline") or {},
        "baseline_name": words.baseline_name(results.get("comparison") or {}),
        "errors": view.error_rows(results),
        "classes": words.CLASSES,
        "changes": words.CHANGES,
        "tasks": tasks,
        "index": index,
        "kinds": sorted({words.outcome(row) for row in rows}),
        "known_changes": sorted({row.change for row in tasks if row.change}),
        "provenance": view.provenance_rows(results),
        "fields": sorted((results.get("fingerprint_fields") or {}).items()),
        "command": f"{EXACT_COMMAND}\n{run_command(results)}",
        "elapsed": words.elapsed,
        "known": words.known,
        "plural": words.plural,
        "version": tbh_action.__version__,
    }


def _svg(text: str) -> Markup:
    return Markup(text)  # noqa: S704 (charts escapes what it writes)


def _scales(results: Results) -> list[dict[str, Any]]:
    """The rows of the plot of rates: name, value, interval."""
    counts, rates, intervals = results["counts"], results["rates"], results["intervals"]
    scored = counts["passed"] + counts["failed"]
    rows = [
        {
            "name": f"Of all {counts['planned']}",
            "value": rates["all"],
            "interval": intervals["all"],
            "main": True,
        },
        {
            "name": f"Of the {scored} scored",
            "value": rates["scored"],
            "interval": intervals["scored"],
            "main": True,
        },
    ]
    if len(results["passes"]) > 1:
        first = results["first_pass"]["rate_all"]
        rows.append({"name": "First pass alone, of all", "value": first, "interval": None})
    if before := view.baseline_passed(results):
        name = f"{words.baseline_name(results['comparison'])}, of all"
        rows.append({"name": name, "value": before[0] / before[1], "interval": None})
    return [{"main": False} | row for row in rows if row["value"] is not None]


def _data(results: Results, tasks: list[view.TaskRow]) -> list[dict[str, Any]]:
    """What the script shows when a task is opened."""
    attempts = [attempt for row in tasks for attempt in row.attempts]
    limits = _log_limits(attempts)
    message = min(_MESSAGE, _MESSAGE_BUDGET // max(len(attempts), 1))
    commands = run_commands(results, [row.task for row in tasks])
    return [
        {
            "command": command,
            "attempts": [_attempt(attempt, limits, message) for attempt in row.attempts],
        }
        for row, command in zip(tasks, commands, strict=True)
    ]


def _attempt(row: Results, limits: dict[str, int], message: int) -> dict[str, Any]:
    log = escape.clean(str(row.get("log_tail") or ""))
    limit = limits[row["status"]]
    tokens = row.get("tokens") or {}
    return {
        "n": row["attempt"],
        "status": row["status"],
        "outcome": words.outcome(row),
        "facts": {
            name: value
            for name, value in (
                ("Reward", words.number(row.get("reward"))),
                ("Exception", row.get("exception")),
                ("Trial", row.get("trial")),
                ("Pass", row.get("pass")),
                ("Started", words.moment(row.get("started_at"))),
                ("Time", words.duration(row.get("seconds"))),
                ("In the agent", words.duration(row.get("agent_seconds"))),
                ("Tokens in", words.count(tokens.get("input"))),
                ("of them cached", words.count(tokens.get("cached"))),
                ("Tokens out", words.count(tokens.get("output"))),
            )
            if value not in (None, words.UNKNOWN)
        },
        "reason": escape.clean(str(row.get("reason") or "")),
        "message": escape.shorten(escape.clean(str(row.get("message") or "")), message),
        "log": log if len(log) <= limit else "…" + log[-limit:] if limit else "",
        "earlier": [
            f"{trial.get('trial')}: pass {trial.get('pass')}, {words.outcome(trial)}"
            f"{', ' + str(trial['exception']) if trial.get('exception') else ''}"
            f" ({trial.get('reason') or ''})"
            for trial in (row.get("superseded_trials") or [])[:20]
        ],
    }


def _log_limits(rows: list[Results]) -> dict[str, int]:
    """Characters of log for an attempt of each status, so that all together fit the budget."""
    lengths = {
        status: [
            min(len(row.get("log_tail") or ""), _LOG) for row in rows if row["status"] == status
        ]
        for status in ("errored", "failed", "passed")
    }
    limits, room = {}, _LOG_BUDGET
    for status, known in lengths.items():
        limits[status] = _LOG if sum(known) <= room else room // len(known)
        room -= sum(min(length, limits[status]) for length in known)
    return limits
