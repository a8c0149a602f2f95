"""Whether a result may stand beside the public Terminal-Bench leaderboard, and its submission.

The rules are those of the leaderboard's own README (huggingface.co/datasets/harborframework/
terminal-bench-2-leaderboard): timeout multiplier 1, no override of timeouts or resources, at least
five trials of each task, every trial with a valid result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import SpecError
from tbh_action.harbor.documents import UnreadableError, mapping, read_object
from tbh_action.redact import Redactor, find_clear_keys
from tbh_action.rundir import RunDir, write_atomic

SUBMISSIONS: Final = "https://huggingface.co/datasets/harborframework/terminal-bench-2-leaderboard"
HOW_TO: Final = "https://www.harborframework.com/docs/leaderboard/submit"
MIN_ATTEMPTS: Final = 5
FILL_IN: Final = "FILL_ME"
_SLUG: Final = "terminal-bench/terminal-bench-2-1"
_VERSION: Final = re.compile(r"terminal-bench[-@/](2\.[01])$")
_SELECTIONS: Final = {
    "benchmark.include_task": "only some tasks were asked for",
    "benchmark.exclude_task": "some tasks were excluded",
    "benchmark.n_tasks": "only a number of the tasks was asked for",
}


def version_of(results: Mapping[str, Any]) -> str | None:
    """The Terminal-Bench version whose leaderboard has rules that are known here."""
    benchmark = mapping(results.get("benchmark"))
    fields = mapping(results.get("fingerprint_fields"))
    for text in (fields.get("benchmark.repo"), benchmark.get("source"), benchmark.get("name")):
        if found := _VERSION.search(str(text or "").rstrip("/").removesuffix(".git")):
            return found[1]
    return None


def doubts(results: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> list[str]:
    """Why a result is not comparable with the leaderboard; empty when it is.

    Args:
        results: a results document, slim or whole.
        config: Harbor's job config, where it is there.
    """
    if version_of(results) is None:
        return ["the leaderboard's rules are known for Terminal-Bench 2.0 and 2.1 only"]
    fields = mapping(results.get("fingerprint_fields"))
    return [
        *_overrides(fields, ""),
        *(text for key, text in _SELECTIONS.items() if fields.get(key)),
        *_trials(results, fields),
        *_job_overrides(config or {}),
    ]


def _overrides(fields: Mapping[str, Any], where: str) -> Iterator[str]:
    for key, value in sorted(fields.items()):
        last = key.rpartition(".")[2]
        is_limit = key == "agent.max_time" or last.startswith("override_")
        if last.endswith("timeout_multiplier") and value not in (None, 1):
            yield f"{where}{last} is {float(value):g}, not 1"
        elif (is_limit or last == "max_timeout_sec") and value is not None:
            yield f"{where}{last} is set ({value})"


def _job_overrides(config: Mapping[str, Any]) -> Iterator[str]:
    """Overrides that stand in Harbor's config only: jobs that were started by hand."""
    parts = [("", config), ("environment: ", mapping(config.get("environment")))]
    parts.append(("verifier: ", mapping(config.get("verifier"))))
    parts += [("agent: ", mapping(agent)) for agent in config.get("agents") or ()]
    for where, part in parts:
        plain = {
            key: value
            for key, value in part.items()
            # How a failure is retried is no override of a timeout or a resource.
            if key != "override_error_policy" and not isinstance(value, dict | list)
        }
        if where == "":
            plain = {key: value for key, value in plain.items() if key == "timeout_multiplier"}
        yield from _overrides(plain, where)


def _trials(results: Mapping[str, Any], fields: Mapping[str, Any]) -> Iterator[str]:
    attempts = results.get("n_attempts") or 1
    if attempts < MIN_ATTEMPTS:
        yield f"{attempts} attempt{'s' * (attempts != 1)} a task, not {MIN_ATTEMPTS} or more"
    rows = results["tasks"]
    planned, tasks = fields.get("benchmark.n_planned"), len({row["task"] for row in rows})
    if isinstance(planned, int) and tasks < planned:
        yield f"{planned - tasks} of the {planned} tasks are not in the result"
    missing = sum(row.get("class") == "missing" for row in rows)
    if missing:
        yield f"{missing} of {len(rows)} planned trials are missing"
    errored = sum(row["status"] == "errored" for row in rows) - missing
    if errored:
        yield f"{errored} of {len(rows)} trials have no valid reward"


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A prepared submission, and what its owner does next."""

    path: Path
    steps: tuple[str, ...]


def harbor_config(run_dir: RunDir) -> dict[str, Any]:
    """The job's own config, empty when it can't be read."""
    try:
        return read_object(run_dir.harbor_job / "config.json")
    except UnreadableError:
        return {}


def prepare_submission(
    run_dir: RunDir, results: Mapping[str, Any], redactor: Redactor
) -> Submission:
    """The leaderboard's own layout in `submission/`: metadata.yaml and the whole Harbor job.

    One that is there already is left as it is: its metadata.yaml may have been filled in.

    Raises:
        SpecError: the job's config holds a key in clear.
    """
    root = run_dir.root / "submission"
    version = version_of(results)
    model, agent = str(results["model"]["name"]), str(results["agent"]["name"])
    folder = root
    if version == "2.0":
        name = f"{agent}__{model.rpartition('/')[2]}"
        folder = root / "submissions" / "terminal-bench" / "2.0" / _plain(name)
    job = folder / _plain(run_dir.name)
    config = harbor_config(run_dir)
    if not root.exists():
        if places := find_clear_keys(config, redactor):
            raise SpecError(f"Harbor's config.json holds a key in clear at {places[0]}; rotate it.")
        redactor.tree(run_dir.harbor_job, job)
        write_atomic(folder / "metadata.yaml", _metadata(model, agent, config))
    return Submission(path=root, steps=tuple(_steps(version, folder, job)))


def _metadata(model: str, agent: str, config: Mapping[str, Any]) -> str:
    """The four facts about the agent and each model that the leaderboard asks for."""
    organisation, _, name = model.rpartition("/")
    agents = config.get("agents") or [{}]
    full = str(mapping(agents[0]).get("model_name") or "")
    provider = full.partition("/")[0] if full.endswith(model) and full != model else FILL_IN

    def line(key: str, value: str) -> str:
        return f"{key}: {json.dumps(value, ensure_ascii=False)}\n"

    return (
        line("agent_url", FILL_IN)
        + line("agent_display_name", agent)
        + line("agent_org_display_name", FILL_IN)
        + "models:\n"
        + f"  - {line('model_name', name)}"
        + f"    {line('model_provider', provider)}"
        + f"    {line('model_display_name', name)}"
        + f"    {line('model_org_display_name', organisation or FILL_IN)}"
    )


def _steps(version: str | None, folder: Path, job: Path) -> Sequence[str]:
    metadata = folder / "metadata.yaml"
    fill = f"Replace each {FILL_IN} in {metadata}."
    if version == "2.0":
        return (fill, f"Open a pull request with it at {SUBMISSIONS} (its README has the rules).")
    return (
        fill,
        f"harbor upload {job}",
        f"harbor leaderboard submit --leaderboard {_SLUG} --job-id JOB_ID --metadata {metadata}",
        f"How, and with which release of Harbor: {HOW_TO}",
    )


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)
