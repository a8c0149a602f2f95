"""Trials for tests: layered from a whole one to what a test wants to see differ."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tbh_action.harbor.trial import Phase, Trial, TrialError
from tbh_action.scoring.failures import Interval
from tbh_action.scoring.ledger import Attempt

NOON = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """An instant, in minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def outage(start: float, end: float, reason: str = "server replaced") -> Interval:
    return Interval(start=at(start), end=at(end), reason=reason)


def error(kind: str, message: str = "m", where: str = "trial", minute: float = 60) -> TrialError:
    return TrialError(type=kind, message=message, where=where, occurred_at=at(minute))


def trial(*errors: TrialError, reward: float | None = None, **more: Any) -> Trial:
    """A trial whose agent worked for an hour from noon on."""
    values: dict[str, Any] = {
        "directory": "t__aaaaaaa",
        "task": "demo/t",
        "started_at": at(-1),
        "finished_at": at(61),
        "reward": reward,
        "reward_problem": None if reward is not None else "the verifier gave no result",
        "verified": reward is not None,
        "errors": errors,
        "environment_setup": Phase(started_at=at(-1), finished_at=at(0)),
        "agent_execution": Phase(started_at=at(0), finished_at=at(60)),
    }
    return Trial(**(values | more))


def attempt(trial_name: str = "t__a", **more: Any) -> Attempt:
    """A passed trial of `demo/t` that ended an hour after noon."""
    values: dict[str, Any] = {
        "task": "demo/t",
        "trial": trial_name,
        "failure_class": "none",
        "scored": True,
        "retryable": False,
        "reward": 1.0,
        "started_at": at(0),
        "finished_at": at(60),
    }
    return Attempt(**(values | more))


def broken(trial_name: str = "t__b", **more: Any) -> Attempt:
    """A trial whose sandbox broke."""
    values: dict[str, Any] = {
        "failure_class": "infrastructure",
        "scored": False,
        "retryable": True,
        "reward": None,
        "exceptions": ("SandboxError",),
        "reason": "SandboxError: infrastructure, not the model",
    }
    return attempt(trial_name, **(values | more))


def document(task: str = "demo/t", *, reward: Any = 1.0, **more: Any) -> dict[str, Any]:
    """A result.json as Harbor writes it, reduced to what is read."""
    values: dict[str, Any] = {
        "task_name": task,
        "task_id": {"path": f"tasks/{task.rpartition('/')[2]}"},
        "task_checksum": "0" * 64,
        "started_at": "2026-08-01T12:00:00Z",
        "finished_at": "2026-08-01T13:00:00Z",
        "agent_info": {"name": "terminus-2", "version": "2", "model_info": {"name": "org/m"}},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
    }
    return values | more


def failure(kind: str, message: str = "m") -> dict[str, Any]:
    """An `exception_info`."""
    return {
        "exception_type": kind,
        "exception_message": message,
        "exception_traceback": "t",
        "occurred_at": "2026-08-01T13:00:00Z",
    }


def put(job: Path, name: str, content: dict[str, Any] | str | None) -> Path:
    """Writes a trial directory; None leaves it without a result."""
    directory = job / name
    directory.mkdir(parents=True)
    if content is not None:
        text = content if isinstance(content, str) else json.dumps(content)
        (directory / "result.json").write_text(text, encoding="utf-8")
    return directory
