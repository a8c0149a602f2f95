"""What a results store shows its visitors: the dataset card, the history page, the table's rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from tbh_action.comparison.earlier import EarlierRun
from tbh_action.comparison.history import Point, Series, trend
from tbh_action.escape import markdown_cell, markdown_text, one_line
from tbh_action.publishing.leaderboard import doubts

HISTORY: Final = "HISTORY.md"
CARD: Final = "README.md"
_START: Final = "<!-- tbh:start -->"
_END: Final = "<!-- tbh:end -->"
_SHOWN: Final = 50
# The columns of the table and their types, as the dataset viewer calls them.
COLUMNS: Final[dict[str, str]] = {
    "run": "string",
    "model": "string",
    "revision": "string",
    "benchmark": "string",
    "task": "string",
    "attempt": "int64",
    "status": "string",
    "class": "string",
    "exception": "string",
    "reward": "float64",
    "reason": "string",
    "seconds": "float64",
    "agent_seconds": "float64",
    "input_tokens": "int64",
    "cached_tokens": "int64",
    "output_tokens": "int64",
    "superseded": "int64",
    "trial": "string",
    "started_at": "string",
    "finished_at": "string",
}


def table(results: Mapping[str, Any], key: str) -> str:
    """JSON Lines for the viewer, one row for each task and attempt; every row has every column."""
    return "".join(
        json.dumps(_row(results, row, key), ensure_ascii=False, allow_nan=False) + "\n"
        for row in results["tasks"]
    )


def _row(results: Mapping[str, Any], row: Mapping[str, Any], key: str) -> dict[str, Any]:
    tokens = row["tokens"] or {}
    values = {
        **row,
        "run": key,
        "model": results["model"]["name"],
        "revision": results["model"]["revision"],
        "benchmark": results["benchmark"]["name"],
        "input_tokens": tokens.get("input"),
        "cached_tokens": tokens.get("cached"),
        "output_tokens": tokens.get("output"),
    }
    return {column: values[column] for column in COLUMNS}


def card(existing: str | None, runs: Sequence[EarlierRun], repo: str) -> str:
    """The dataset card. What its owner wrote outside of our two marks stays."""
    ours = f"{_START}\n{_body(runs, repo)}{_END}\n"
    if existing is None:
        return f"{_front_matter(repo)}\n# {repo}\n\n{ours}"
    before, start, rest = existing.partition(_START)
    _, end, after = rest.partition(_END)
    if start and end:
        return f"{before}{ours}{after.removeprefix('\n')}"
    return f"{existing.rstrip()}\n\n{ours}"


def _front_matter(repo: str) -> str:
    features = "".join(f"  - name: {name}\n    dtype: {kind}\n" for name, kind in COLUMNS.items())
    return (
        "---\n"
        f"pretty_name: {json.dumps(repo.rpartition('/')[2])}\n"
        "tags:\n- terminal-bench\n- evaluation-results\n- tbh-action\n"
        "configs:\n- config_name: default\n  data_files: data/*.jsonl\n"
        f"dataset_info:\n  config_name: default\n  features:\n{features}"
        "---\n"
    )


def _body(runs: Sequence[EarlierRun], repo: str) -> str:
    newest = sorted(runs, key=lambda run: (run.instant, run.name, run.source), reverse=True)
    points = {point.source: point for series in trend(runs) for point in series.points}
    heading = "| Run | Ended | Model | Revision | Passed | Of all | 95 % interval | Scored |\n"
    lines = [heading, "|---|---|---|---|--:|--:|--:|--:|\n"]
    lines += [_line(points[run.source], _folder(run)) for run in newest[:_SHOWN]]
    more = f"\n… and {len(newest) - _SHOWN} more in `runs/`.\n" if len(newest) > _SHOWN else ""
    return (
        "Terminal-Bench results, measured and published by `tbh`. Each run has all of its trials'\n"
        "results, so its score can be computed again:\n\n"
        f"```\ntbh verify hf://datasets/{repo}/runs/{_folder(newest[0])}\n"
        f"tbh run … --baseline hf://datasets/{repo}#latest\n```\n\n"
        f"{''.join(lines)}{more}\n"
        "“Of all” counts what could not be scored as not passed. "
        f"The [history]({HISTORY}) shows which runs may be compared with each other. The table\n"
        "of the viewer has one row for each task and attempt.\n\n"
        f"{_leaderboard(newest[0])}"
    )


def _leaderboard(run: EarlierRun) -> str:
    """What the newest run may be compared with."""
    found = doubts(run.results)
    name = markdown_text(run.name)
    if not found:
        return f"{name} keeps the rules of the public leaderboard.\n"
    reasons = "".join(f"- {markdown_text(reason)}\n" for reason in found)
    return f"{name} is not comparable with the public leaderboard:\n\n{reasons}"


def _line(point: Point, folder: str) -> str:
    low, high = point.interval_all
    link = f"[{markdown_text(point.name)}](runs/{quote(folder)}/report/summary.md)"
    cells = [
        link if point.complete else f"{link} (incomplete)",
        markdown_cell((point.date or "")[:10]),
        markdown_cell(point.model),
        markdown_cell(one_line(point.revision)[:12]),
        f"{point.passed}/{point.planned}",
        "–" if point.rate_all is None else f"{point.rate_all:.1%}",
        f"{100 * low:.1f}–{100 * high:.1f}",
        f"{point.scored}/{point.planned}",
    ]
    return f"| {' | '.join(cells)} |\n"


def history_page(runs: Sequence[EarlierRun], repo: str) -> str:
    """The trend as Markdown: one table for each group of runs that were measured alike."""
    tables = "\n".join(_series(series) for series in reversed(trend(runs)))
    return (
        f"# History of {repo}\n\n"
        "Runs that were measured alike make one table; numbers of two tables can't be compared.\n\n"
        f"{tables}"
    )


def _series(series: Series) -> str:
    name = markdown_text(series.benchmark) or "Unnamed benchmark"
    rows = "".join(_line(point, _folder_of(point.source)) for point in reversed(series.points))
    return (
        f"## {name}, measured as {series.conditions[:12] or 'unknown'}\n\n"
        "| Run | Ended | Model | Revision | Passed | Of all | 95 % interval | Scored |\n"
        f"|---|---|---|---|--:|--:|--:|--:|\n{rows}"
    )


def _folder(run: EarlierRun) -> str:
    return _folder_of(run.source)


def _folder_of(source: str) -> str:
    """`<key>` of `…/runs/<key>/results.json`."""
    return source.split("/")[-2]
