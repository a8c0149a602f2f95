"""The commands that run it again: the whole, or one task."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from tbh_action.escape import one_line
from tbh_action.report.words import Results


def run_command(results: Results, task: str | None = None) -> str:
    """`tbh run …` with what decides the result; with `task`, for that one only."""
    return next(iter(run_commands(results, [task])))


def run_commands(results: Results, tasks: Iterable[str | None]) -> Iterator[str]:
    """`run_command` for each of `tasks`."""
    before, after = (_quoted(words) for words in _words(results))
    for task in tasks:
        only = [] if task is None else _quoted(["--include-task", task])
        yield " ".join([*before, *only, *after])


def _quoted(words: Iterable[Any]) -> list[str]:
    return [shlex.quote(one_line(str(word))) for word in words]


def _words(results: Results) -> tuple[list[Any], list[Any]]:
    """The words of the command, before and after the task."""
    fields, provenance = results.get("fingerprint_fields") or {}, results.get("provenance") or {}
    before: list[Any] = ["tbh", "run"]
    after: list[Any] = []
    recipe = provenance.get("recipe")
    if recipe or (model := results["model"].get("name")):
        before += ["--recipe", recipe] if recipe else ["--model", model]
    before += _benchmark(results, fields)
    if (attempts := results.get("n_attempts", 1)) > 1:
        after += ["--n-attempts", attempts]
    multiplier = fields.get("agent_timeout_multiplier")
    if multiplier not in (None, 1, 1.0):
        after += ["--agent-timeout-multiplier", f"{multiplier:g}"]
    after += _pairs("--ak", results["agent"].get("kwargs") or {})
    return before, after


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
