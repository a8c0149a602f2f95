"""Small results documents for tests: a row, rows from a string, a whole document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FIELDS: dict[str, Any] = {
    "agent.kwargs.reasoning_effort": "low",
    "agent.name": "terminus-2",
    "agent_timeout_multiplier": 4.0,
    "benchmark.repo": "https://hub.example/datasets/org/bench",
    "benchmark.revision": "b7e4c1d2a3f4",
    "environment.type": "hf-sandbox",
    "max_call": 1800.0,
    "model.name": "org/model",
    "model.revision": "1111111111aa",
    "n_attempts": 1,
    "server.flavor": "h200",
    "server.image": "engine:1",
}
STATUS = {"p": "passed", "f": "failed", "e": "errored"}


def row(task: str, status: str = "passed", attempt: int = 1, **changes: Any) -> dict[str, Any]:
    """One row of `tasks`, with what a comparison reads."""
    kind = "infrastructure" if status == "errored" else "none"
    return {"task": task, "attempt": attempt, "status": status, "class": kind} | changes


def rows(outcomes: str) -> list[dict[str, Any]]:
    """`"pfe"`: three tasks; `"ppf fff"`: two tasks with three attempts each."""
    groups = outcomes.split() if " " in outcomes else list(outcomes)
    return [
        row(f"org/task-{number:03}", STATUS[letter], attempt)
        for number, letters in enumerate(groups, start=1)
        for attempt, letter in enumerate(letters, start=1)
    ]


def results(outcomes: str | list[dict[str, Any]] = "ppff", **changes: Any) -> dict[str, Any]:
    """A whole results document as far as comparison, gate, baseline and history read it.

    `name`, `started_at`, `finished_at`, `complete`, `stop_reason` go to `run`, `revision` to
    `model`, `fields` over the fingerprint's fields; any other key is set as it is.
    """
    tasks = rows(outcomes) if isinstance(outcomes, str) else outcomes
    run = {
        "name": "run-1",
        "started_at": "2026-08-01T09:00:00Z",
        "finished_at": "2026-08-01T20:00:00Z",
        "complete": True,
        "stop_reason": None,
    }
    run |= {key: changes.pop(key) for key in list(run) if key in changes}
    revision = changes.pop("revision", FIELDS["model.revision"])
    fields = FIELDS | {"model.revision": revision} | changes.pop("fields", {})
    document: dict[str, Any] = {
        "schema_version": 1,
        "run": run,
        "model": {"name": fields["model.name"], "revision": revision},
        "benchmark": {"name": "bench", "source": fields["benchmark.repo"], "revision": "b7"},
        "fingerprint": "f" * 64,
        "fingerprint_fields": fields,
        "n_attempts": max((item["attempt"] for item in tasks), default=1),
        "tasks": tasks,
        "cost": {"total_usd": None},
        "comparison": None,
        "gate": None,
        "flaky": [],
        "warnings": [],
    }
    return document | changes


def write(path: Path, document: Any) -> Path:
    """`document` as JSON at `path`; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
