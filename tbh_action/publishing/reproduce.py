"""The commands that repeat a run, from what its results say it rests on.

The flags of `tbh run` are found by asking `resolve` itself: a command is offered only if it gives
the very same spec, and of its flags each one that changes nothing is dropped.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tbh_action import recipes
from tbh_action.controller.dry_run import server_command
from tbh_action.errors import SpecError
from tbh_action.harbor.command import job_config
from tbh_action.recipes import toml_text
from tbh_action.resolve import resolve
from tbh_action.rundir import RunDir
from tbh_action.spec import RunSpec, validate_spec

_DURATIONS: Final = frozenset(
    {"max_agent_time", "max_call", "server_timeout", "schedule_timeout", "load_timeout"}
)
_MODEL_FILE: Final = "model.toml"
_BENCHMARK_FILE: Final = "benchmark.toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reproduction:
    """`run`: argv of `tbh run`. `server` and `harbor`: shell lines for doing it by hand. `files`:
    recipes that the commands read, by path, as text. `notes`: what can't be the same."""

    run: tuple[str, ...]
    server: str | None
    harbor: str
    files: Mapping[Path, str]
    notes: tuple[str, ...]


def reproduction(results: Mapping[str, Any], directory: Path) -> Reproduction:
    """How to repeat the run behind `results`. `directory`: where recipe files would be written.

    Raises:
        SpecError: the results do not hold their spec.
    """
    spec = pinned_spec(results)
    options, files = options_of(spec, directory)
    return Reproduction(
        run=argv_of(options),
        server=server_command(spec, _run_name(results)) if spec.server else None,
        harbor=harbor_by_hand(spec, _run_name(results)),
        files=files,
        notes=tuple(_notes(spec, results)),
    )


def pinned_spec(results: Mapping[str, Any]) -> RunSpec:
    """The spec of the run, its benchmark pinned to the commit that was found.

    Raises:
        SpecError: the results do not hold it.
    """
    provenance = results.get("provenance")
    document = provenance.get("spec") if isinstance(provenance, Mapping) else None
    if not isinstance(document, Mapping):
        raise SpecError(
            "These results do not say what was asked (no provenance.spec): they were counted from "
            "a job directory, or written by another version of tbh."
        )
    copy = json.loads(json.dumps(document))
    commit = provenance.get("benchmark_commit") if isinstance(provenance, Mapping) else None
    if commit and isinstance(copy.get("benchmark"), dict) and copy["benchmark"].get("repo"):
        copy["benchmark"]["revision"] = commit
    return validate_spec(copy)


def options_of(spec: RunSpec, directory: Path) -> tuple[dict[str, Any], dict[Path, str]]:
    """The fewest options of `tbh run` that resolve to `spec`, and the recipe files (in `directory`)
    that they need.

    Raises:
        SpecError: no combination gives the same spec (a fault of tbh: it says so).
    """
    texts = {_MODEL_FILE: model_recipe(spec), _BENCHMARK_FILE: benchmark_recipe(spec)}
    with tempfile.TemporaryDirectory(prefix="tbh-reproduce-") as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        for start in _starts(spec, Path(folder)):
            options = start | _flags(spec)
            if _gives(options, spec):
                options = _fewest(options, spec)
                break
        else:
            raise SpecError(
                "The spec of these results is not one that this version of tbh can ask for."
            )
        moved = {str(Path(folder) / name): directory / name for name in texts}
    files = {
        path: texts[path.name] for old, path in moved.items() if old in map(str, options.values())
    }
    return {
        key: str(moved[value]) if isinstance(value, str) and value in moved else value
        for key, value in options.items()
    }, files


def _starts(spec: RunSpec, directory: Path) -> Iterator[dict[str, Any]]:
    """Where options can start from: shipped recipes first, then sources, then files of our own."""
    benchmark = spec.benchmark
    sources = [("repo", benchmark.repo), ("path", benchmark.path), ("dataset", benchmark.dataset)]
    ends: list[dict[str, Any]] = []
    if benchmark.name in recipes.names("benchmarks"):
        ends.append({"benchmark": benchmark.name})
    ends.append({key: value for key, value in sources if value})
    ends.append({"benchmark": str(directory / _BENCHMARK_FILE)})
    if spec.endpoint:
        asked: dict[str, Any] = {"endpoint": spec.endpoint}
        servers = [asked | {"model": spec.model.name}]
    else:
        asked = {}
        servers = [
            {"recipe": name}
            for name in recipes.names("models")
            if recipes.load("models", name).get("model") == spec.model.name
        ]
    servers.append(asked | {"recipe": str(directory / _MODEL_FILE)})
    yield from (server | end for server in servers for end in ends)


def _flags(spec: RunSpec) -> dict[str, Any]:
    """Every option that says a part of `spec`, by its name in `tbh run`."""
    benchmark, server, agent = spec.benchmark, spec.server, spec.agent
    options: dict[str, Any] = {
        "model_revision": spec.model.revision,
        "benchmark_revision": benchmark.revision,
        "include_task": benchmark.include_task,
        "exclude_task": benchmark.exclude_task,
        "n_tasks": benchmark.n_tasks,
        "n_attempts": spec.n_attempts,
        "n_concurrent": spec.n_concurrent,
        "min_concurrent": spec.min_concurrent,
        "max_passes": spec.max_passes,
        "agent_timeout_multiplier": spec.agent_timeout_multiplier,
        "max_agent_time": agent.max_time,
        "max_call": spec.max_call,
        "agent": agent.name,
        "ak": _pairs(agent.kwargs),
        "env": spec.environment.type,
        "ek": _pairs(spec.environment.kwargs),
        "namespace": spec.namespace,
    }
    if server:
        options |= {
            "flavor": server.flavor,
            "server_timeout": server.timeout,
            "schedule_timeout": server.schedule_timeout,
            "load_timeout": server.load_timeout,
            "replicas": server.replicas,
            "mount_model": server.mount_model or None,
        }
    return {key: value for key, value in options.items() if value not in (None, ())}


def _gives(options: dict[str, Any], spec: RunSpec) -> bool:
    try:
        return _meaning(resolve(dict(options))) == _meaning(spec)
    except SpecError:
        return False


def _meaning(spec: RunSpec) -> dict[str, Any]:
    """The spec without the benchmark's display name, which depends on how it was asked for."""
    document = spec.model_dump(mode="json")
    document["benchmark"].pop("name")
    return document


def _fewest(options: dict[str, Any], spec: RunSpec) -> dict[str, Any]:
    for key in list(options):
        without = {name: value for name, value in options.items() if name != key}
        if _gives(without, spec):
            options = without
            continue
        if key in ("ak", "ek"):
            for pair in options[key]:
                fewer = options | {key: tuple(item for item in options[key] if item != pair)}
                options = fewer if _gives(fewer, spec) else options
    return options


def argv_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """`tbh run …` with these options."""
    words = ["tbh", "run"]
    for key, value in options.items():
        flag = f"--{key.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, tuple | list):
            for item in value:
                words += [flag, str(item)]
        elif key in _DURATIONS:
            words += [flag, f"{value:g}s"]
        else:
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return tuple(words)


def _pairs(kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """`K=V` as `--ak` reads it back: text that looks like JSON is quoted as JSON."""
    return tuple(f"{key}={_pair_value(value)}" for key, value in kwargs.items())


def _pair_value(value: Any) -> str:
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, ensure_ascii=False)


def model_recipe(spec: RunSpec) -> str:
    """A model recipe file that holds the spec's server word for word."""
    document: dict[str, Any] = {
        "model": spec.model.name,
        "revision": spec.model.revision,
        "context_length": spec.model.context_length,
        "max_output_tokens": spec.model.max_output_tokens,
    }
    if spec.server:
        document["server"] = {
            key: value for key, value in spec.server.model_dump(mode="json").items() if value != {}
        }
    return toml_text.dump(document, {"": f"The server of a run of {spec.model.name}."})


def benchmark_recipe(spec: RunSpec) -> str:
    """A benchmark recipe file that holds the spec's tasks, agent and environment."""
    document: dict[str, Any] = {
        key: value
        for key, value in spec.benchmark.model_dump(mode="json").items()
        if key != "name" and value not in (None, [])
    }
    document["agent"] = spec.agent.model_dump(mode="json")
    document["environment"] = spec.environment.model_dump(mode="json")
    return toml_text.dump(document, {"": f"The tasks and agent of a run on {spec.benchmark.name}."})


def harbor_by_hand(spec: RunSpec, name: str) -> str:
    """One pass with stock Harbor: the seed's command, with the settings that tbh derives."""
    config = job_config(spec, RunDir(Path("/")))
    agent, dataset = config["agents"][0], config["datasets"][0]
    words = ["harbor", "run", "--agent", agent["name"], "--model", agent["model_name"]]
    port = spec.server.port if spec.server else 0
    words += ["--ak", f"api_base={spec.endpoint or f'https://<job_id>--{port}.hf.jobs/v1'}"]
    ours = {"session_id_headers"}
    for pair in _pairs({k: v for k, v in agent["kwargs"].items() if k not in ours}):
        words += ["--ak", pair]
    for key, flag in (("repo", "--repo"), ("path", "--path"), ("name", "--dataset")):
        if key in dataset:
            version = dataset.get("ref") or dataset.get("version")
            words += [flag, f"{dataset[key]}@{version}" if version else dataset[key]]
    for key, flag in (("task_names", "-i"), ("exclude_task_names", "-x")):
        for task in dataset.get(key, ()):
            words += [flag, task]
    if "n_tasks" in dataset:
        words += ["--n-tasks", str(dataset["n_tasks"])]
    words += ["--env", config["environment"]["type"]]
    for pair in _pairs(config["environment"]["kwargs"]):
        words += ["--ek", pair]
    words += ["--agent-timeout-multiplier", f"{spec.agent_timeout_multiplier:g}"]
    words += ["--n-attempts", str(spec.n_attempts), "--n-concurrent", str(spec.n_concurrent)]
    return f'OPENAI_API_KEY="$(hf auth token)" {shlex.join([*words, "--job-name", name, "-y"])}'


def _notes(spec: RunSpec, results: Mapping[str, Any]) -> Iterator[str]:
    provenance = results["provenance"]
    if spec.server and not provenance.get("server_image_digest"):
        tag = spec.server.image.rpartition(":")[2]
        moving = "latest" in tag or "/" in tag
        yield (
            f"The image {spec.server.image} was not pinned by digest"
            + (": it may be another one today." if moving else ".")
        )
    if spec.model.revision is None and spec.server:
        yield "The model's revision was not pinned: the server loads the newest."
    if spec.endpoint:
        yield f"The endpoint {spec.endpoint} was not ours: what it serves is not known."
    if spec.benchmark.path:
        yield f"The tasks lay in {spec.benchmark.path}; the results hold their digests."
    elif spec.benchmark.repo and not provenance.get("benchmark_commit"):
        yield "The benchmark's commit is not known: the newest one is used."
    for package in ("tbh_action", "harbor"):
        if provenance.get(package):
            yield f"It was measured with {package.replace('_', '-')} {provenance[package]}."


def _run_name(results: Mapping[str, Any]) -> str:
    return str((results.get("run") or {}).get("name") or "reproduced")
