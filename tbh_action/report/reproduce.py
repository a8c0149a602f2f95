"""The commands that run it again: the whole, or one task."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tbh_action.escape import one_line
from tbh_action.report.words import Results


def run_command(results: Results, task: str | None = None) -> str:
    """`tbh run …` with what decides the result; with `task`, for that one only."""
    fields, provenance = results.get("fingerprint_fields") or {}, results.get("provenance") or {}
    words = ["tbh", "run"]
    recipe = provenance.get("recipe")
    if recipe or (model := results["model"].get("name")):
        words += ["--recipe", recipe] if recipe else ["--model", model]
    words += _benchmark(results, fields)
    if task is not None:
        words += ["--include-task", task]
    if (attempts := results.get("n_attempts", 1)) > 1:
        words += ["--n-attempts", attempts]
    multiplier = fields.get("agent_timeout_multiplier")
    if multiplier not in (None, 1, 1.0):
        words += ["--agent-timeout-multiplier", f"{multiplier:g}"]
    words += _pairs("--ak", results["agent"].get("kwargs") or {})
    return " ".join(shlex.quote(one_line(str(word))) for word in words)


def _benchmark(results: Results, fields: dict[str, Any]) -> list[Any]:
    path = fields.get("benchmark.path")
    if path:
        return ["--path", results["benchmark"].get("source") or path]
    name = results["benchmark"].get("name")
    return ["--benchmark", name] if name else []


def _pairs(flag: str, pairs: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for key, value in pairs.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        words += [flag, f"{key}={text}"]
    return words
