"""The commands that run it again: the whole, or one task."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tbh_action import recipes
from tbh_action.escape import one_line
from tbh_action.report.words import Results

# A run's own recipe file and server flags don't fit on a line.
EXACT_COMMAND: Final = "tbh reproduce results.json  # the exact commands; in short:"


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
    fields = results.get("fingerprint_fields") or {}
    before = ["tbh", "run", *_model(results, fields), *_benchmark(results, fields)]
    after: list[Any] = []
    if (attempts := results.get("n_attempts", 1)) > 1:
        after += ["--n-attempts", attempts]
    multiplier = fields.get("agent_timeout_multiplier")
    if multiplier not in (None, 1, 1.0):
        after += ["--agent-timeout-multiplier", f"{multiplier:g}"]
    after += _pairs("--ak", results["agent"].get("kwargs") or {})
    prefix = "environment.kwargs."
    after += _pairs(
        "--ek", {k[len(prefix) :]: v for k, v in fields.items() if k.startswith(prefix)}
    )
    return before, after


def _model(results: Results, fields: dict[str, Any]) -> list[Any]:
    """How the model was served: by a recipe of ours, by one of the user's own, or elsewhere."""
    model = results["model"].get("name")
    provenance = results.get("provenance")
    recipe = provenance.get("recipe") if provenance else recipes.for_model(str(model))
    if recipe:
        return ["--recipe", recipe]
    if fields.get("server.image"):
        return ["--recipe", "RECIPE.toml"]
    if fields.get("server.endpoint"):
        return ["--endpoint", "URL", "--model", model]
    return ["--model", model] if model else []


def _benchmark(results: Results, fields: dict[str, Any]) -> list[Any]:
    benchmark = results["benchmark"]
    if path := fields.get("benchmark.path"):
        return ["--path", benchmark.get("source") or path]
    if (name := benchmark.get("name")) in recipes.names("benchmarks"):
        return ["--benchmark", name]
    for kind in ("repo", "dataset"):
        if source := fields.get(f"benchmark.{kind}"):
            return [f"--{kind}", source]
    return ["--benchmark", name] if name else []


def _pairs(flag: str, pairs: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for key, value in pairs.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        words += [flag, f"{key}={text}"]
    return words
