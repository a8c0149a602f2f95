"""From recipes and options to one spec: later layers win, and nothing is guessed silently."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, Final

from tbh_action import recipes
from tbh_action.errors import SpecError
from tbh_action.spec import (
    DEFAULT_BENCHMARK,
    AgentSpec,
    EnvironmentSpec,
    RunSpec,
    validate_spec,
)

_SOURCES: Final = ("repo", "path", "dataset")
_BENCHMARK_KEYS: Final = (*_SOURCES, "revision", "include_task", "exclude_task", "n_tasks")
_MODEL_KEYS = ("context_length", "max_output_tokens", "revision")
# The flags say one word where the recipes have a table.
_AS_TABLE = {"agent": ("agent", "name"), "env": ("environment", "type")}
_SHARED_KEYS = (
    "agent",
    "environment",
    "agent_timeout_multiplier",
    "n_attempts",
    "n_concurrent",
    "min_concurrent",
    "max_passes",
    "max_call",
)
_TABLES: Final = ("agent", "environment", "server")
# Whose kwargs they are, where a layer does not say it.
_DEFAULT_KIND: Final = {"name": AgentSpec().name, "type": EnvironmentSpec().type}
# What goes to Harbor by environment only: in kwargs it would stand in files, and freeze the server.
_NOT_AS_KWARG: Final = {
    "api_base": "the server's address is --endpoint URL",
    "api_key": "the server's key is the variable OPENAI_API_KEY",
}


def resolve(options: dict[str, Any]) -> RunSpec:
    """The spec that `options` ask for.

    `options` is flat, keyed like the flags (`n_concurrent`, `include_task`, …); None and empty
    tuples mean "not given". `ak` and `ek` are sequences of `KEY=VALUE`.

    Raises:
        SpecError: unknown recipe, contradictory or missing options, a value out of range.
    """
    given = {key: value for key, value in options.items() if value not in (None, ())}
    for flag, (table, key) in _AS_TABLE.items():
        if flag in given:
            given[table] = {key: given.pop(flag)}
    if "model_revision" in given:
        given["revision"] = given.pop("model_revision")
    model_recipe = _model_recipe(given)
    benchmark_recipe, benchmark = _benchmark(given)
    document: dict[str, Any] = {}
    for layer in (benchmark_recipe, model_recipe, given):
        for key in _SHARED_KEYS:
            if key in layer:
                document[key] = _layered(document.get(key), layer[key])
    document["benchmark"] = benchmark
    document["model"] = _model(given, model_recipe)
    document |= _serving(given, model_recipe)
    agent = document.setdefault("agent", {})
    if "max_agent_time" in given:
        agent["max_time"] = given["max_agent_time"]
    agent["kwargs"] = agent.get("kwargs", {}) | _agent_kwargs(given.get("ak", ()))
    environment = document.setdefault("environment", {})
    environment["kwargs"] = environment.get("kwargs", {}) | _pairs("--ek", given.get("ek", ()))
    if "namespace" in given:
        document["namespace"] = given["namespace"]
    return validate_spec(document)


def _model_recipe(given: dict[str, Any]) -> dict[str, Any]:
    name = given.get("recipe")
    if name is None and "model" in given and "endpoint" not in given:
        name = recipes.for_model(given["model"])
        if name is None:
            raise SpecError(
                f"There is no recipe that serves {given['model']}. Use --endpoint URL for a "
                "server that runs already, or --recipe FILE.toml with a recipe of your own "
                "(`tbh recipe new` proposes one)."
            )
    if name is None:
        return {}
    recipe = _checked(recipes.load("models", name), name, ("model", "server", *_MODEL_KEYS))
    served, asked = recipe.get("model"), given.get("model")
    if "endpoint" not in given and served and asked and served != asked:
        raise SpecError(
            f"The recipe {name} serves {served}, not {asked}; drop --model, or give the recipe of "
            f"{asked} (`tbh recipe new {asked}` proposes one)."
        )
    return recipe


def _checked(recipe: dict[str, Any], name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """`recipe`, whose keys are all known and whose tables are tables."""
    known = [*keys, *_SHARED_KEYS]
    for key in recipe:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise SpecError(f"The recipe {name} has the unknown key {key!r}; {hint}")
    for key in _TABLES:
        table = recipe.get(key, {})
        if not isinstance(table, dict) or not isinstance(table.get("kwargs", {}), dict):
            raise SpecError(f"The recipe {name}: {key} and its kwargs must be tables.")
    return recipe


def _benchmark(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    sources: dict[str, Any] = {key: given[key] for key in _SOURCES if key in given}
    name = given.get("benchmark")
    if name is None and not sources:
        name = DEFAULT_BENCHMARK
    recipe = _checked(recipes.load("benchmarks", name), name, _BENCHMARK_KEYS) if name else {}
    benchmark: dict[str, Any] = {key: recipe[key] for key in _BENCHMARK_KEYS if key in recipe}
    if sources:
        for key in _SOURCES:
            benchmark.pop(key, None)
        benchmark |= sources
    for key in ("include_task", "exclude_task", "n_tasks"):
        if key in given:
            benchmark[key] = given[key]
    if "benchmark_revision" in given:
        benchmark["revision"] = given["benchmark_revision"]
    if "path" in benchmark:
        benchmark["path"] = str(Path(str(benchmark["path"])).expanduser().resolve())
    source = str(next(iter(sources.values()), name))
    benchmark["name"] = name if name and not sources else Path(source.rstrip("/")).name
    return recipe, benchmark


def _model(given: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    name = given.get("model", recipe.get("model"))
    if name is None:
        raise SpecError("Which model? Give --recipe NAME, or --model ORG/NAME with --endpoint URL.")
    return {"name": name} | {
        key: layer[key] for layer in (recipe, given) for key in _MODEL_KEYS if key in layer
    }


def _serving(given: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    if "endpoint" in given:
        return {"endpoint": given["endpoint"]}
    server = dict(recipe.get("server", {}))
    if not server:
        raise SpecError("No server: give --recipe NAME (see `tbh recipes`) or --endpoint URL.")
    for option, key in (
        ("flavor", "flavor"),
        ("server_timeout", "timeout"),
        ("schedule_timeout", "schedule_timeout"),
        ("load_timeout", "load_timeout"),
        ("replicas", "replicas"),
        ("mount_model", "mount_model"),
    ):
        if option in given:
            server[key] = given[option]
    return {"server": server}


def _layered(old: Any, new: Any) -> Any:
    """`new` over `old`. Kwargs belong to one agent (or environment): another does not inherit
    them."""
    if isinstance(old, dict) and isinstance(new, dict):
        kinds = [(new.get(key), old.get(key, kind)) for key, kind in _DEFAULT_KIND.items()]
        if any(ours not in (None, theirs) for ours, theirs in kinds):
            old = {key: value for key, value in old.items() if key != "kwargs"}
    return _merged(old, new)


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: _merged(old.get(key), value) for key, value in new.items()}
    return new


def _agent_kwargs(items: tuple[str, ...]) -> dict[str, Any]:
    kwargs = _pairs("--ak", items)
    for key, instead in _NOT_AS_KWARG.items():
        if key in kwargs:
            raise SpecError(f"--ak {key} would be written to files: {instead}.")
    return kwargs


def _pairs(flag: str, items: tuple[str, ...]) -> dict[str, Any]:
    """`KEY=VALUE` pairs; a value that is JSON (a number, true, a list) is taken as JSON."""
    pairs: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise SpecError(f"{flag} takes KEY=VALUE, not {item!r}.")
        try:
            pairs[key.strip()] = json.loads(text)
        except ValueError:
            pairs[key.strip()] = text
    return pairs
