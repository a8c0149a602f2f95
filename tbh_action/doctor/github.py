"""Limits and rights of the CI job that tbh runs in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tbh_action.doctor.check import Check, ok, warn
from tbh_action.durations import format_duration

# A job on a hosted runner is cancelled after 6 h, on a self-hosted one after 5 days.
HOSTED_LIMIT: Final = 6 * 3600.0
SELF_HOSTED_LIMIT: Final = 5 * 86_400.0
_MARGIN: Final = 20 * 60.0


def check_runner(environ: Mapping[str, str], time_budget: float | None = None) -> Check:
    """Will the CI's own limit cut the run off? `time_budget`: seconds, None when unlimited."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return ok("runner", "not on GitHub Actions, no limit known")
    hosted = environ.get("RUNNER_ENVIRONMENT", "github-hosted") == "github-hosted"
    limit = HOSTED_LIMIT if hosted else SELF_HOSTED_LIMIT
    kind = "hosted" if hosted else "self-hosted"
    where = f"a {kind} runner ends a job after {format_duration(limit)}"
    if time_budget is None:
        return warn("runner", f"{where}, and no time budget is set", "give --time-budget 5h30m")
    if time_budget > limit - _MARGIN:
        return warn(
            "runner",
            f"{where}, the time budget is {format_duration(time_budget)}",
            f"give --time-budget {format_duration(limit - 1800).replace(' ', '')}",
        )
    return ok("runner", f"{where}; the time budget of {format_duration(time_budget)} fits")


def check_comment(environ: Mapping[str, str]) -> Check:
    """Can a pull request comment be written?

    The rights of GITHUB_TOKEN can't be asked for without writing, so only the known blockers are.
    """
    if environ.get("GITHUB_ACTIONS") != "true":
        return ok("comment", "not on GitHub Actions, none is written")
    pull_request = _event(environ).get("pull_request")
    if not isinstance(pull_request, dict):
        return ok("comment", "the event is no pull request, none is written")
    base = (pull_request.get("base") or {}).get("repo") or {}
    head = (pull_request.get("head") or {}).get("repo") or {}
    if head.get("full_name") != base.get("full_name"):
        return warn(
            "comment",
            "the pull request comes from a fork: its job may not write, and gets no secrets",
            "run the benchmark from the base repository (workflow_dispatch)",
        )
    if not environ.get("GITHUB_TOKEN"):
        return warn("comment", "GITHUB_TOKEN is not set", "pass github-token to the action")
    return ok("comment", "possible if the job has `permissions: pull-requests: write`")


def _event(environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        text = Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8")
        event = json.loads(text)
    except (KeyError, OSError, ValueError):
        return {}
    return event if isinstance(event, dict) else {}
