"""Earlier results as files: one `results.json`, a directory of runs, a dataset on the Hub.

A results file comes from elsewhere, so it is checked for what is read from it here, and what
nobody needs later (logs, timelines) is dropped: a store of many large runs stays small in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import NotStartedError, SpecError
from tbh_action.harbor.documents import instant

HUB_PREFIX: Final = "hf://datasets/"
RESULTS: Final = "results.json"
SCHEMA_VERSION: Final = 1
_KEPT: Final = (
    "schema_version",
    "run",
    "model",
    "benchmark",
    "agent",
    "fingerprint",
    "fingerprint_fields",
    "counts",
    "n_attempts",
    "n_tasks",
    "rates",
    "intervals",
    "cost",
    "provenance",
)
_KEPT_OF_TASK: Final = ("task", "attempt", "status", "class")
_STATUS: Final = frozenset({"passed", "failed", "errored"})
_MAX_BYTES: Final = 1024**3
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierRun:
    """One results document, and where it was found."""

    results: dict[str, Any]
    source: str

    @property
    def name(self) -> str:
        return str(self.results["run"].get("name") or self.source)

    @property
    def model(self) -> str:
        return str(self.results["model"].get("name") or "")

    @property
    def revision(self) -> str:
        return str(self.results["model"].get("revision") or "")

    @property
    def complete(self) -> bool:
        return bool(self.results["run"].get("complete"))

    @property
    def date(self) -> str | None:
        """When it ended, else began, as written in the file."""
        run = self.results["run"]
        date = run.get("finished_at") or run.get("started_at")
        return str(date) if date else None

    @property
    def instant(self) -> datetime:
        return instant_of(self.date)


@dataclass(frozen=True, kw_only=True, slots=True)
class Earlier:
    """All readable results of a place, and a line for each that could not be read.

    `single` says that the place is one file: then it is meant, whatever it holds.
    """

    runs: tuple[EarlierRun, ...]
    problems: tuple[str, ...] = ()
    single: bool = False


def instant_of(text: str | None) -> datetime:
    """`text` for ordering: no zone means UTC, nothing readable is the oldest."""
    return instant(text) or _OLDEST


def read_results(path: Path) -> dict[str, Any]:
    """A results document, checked and without its bulk.

    Raises:
        SpecError: it can't be read, is no results document, or is of a later version.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
        document = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(f"{path} can't be read as JSON: {error}.") from error
    problem = _problem(document)
    if problem:
        raise SpecError(f"{path} is no results.json of ours: {problem}.")
    slim = {key: document[key] for key in _KEPT if key in document}
    slim["tasks"] = [{key: row.get(key) for key in _KEPT_OF_TASK} for row in document["tasks"]]
    return slim


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _problem(document: Any) -> str:
    """What keeps `document` from being compared, or the empty string."""
    if not isinstance(document, dict):
        return "not an object"
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        return f"schema_version is {version!r}, not {SCHEMA_VERSION}"
    for key in ("run", "model", "fingerprint_fields"):
        if not isinstance(document.get(key), dict):
            return f"no {key!r} object"
    tasks = document.get("tasks")
    if not isinstance(tasks, list):
        return "no list of tasks"
    return next((_task_problem(row) for row in tasks if _task_problem(row)), "")


def _task_problem(row: Any) -> str:
    if not (isinstance(row, dict) and isinstance(row.get("task"), str)):
        return "a task without a name"
    status = row.get("status")
    known = isinstance(status, str) and status in _STATUS
    return "" if known else f"task {row['task']!r} has the status {status!r}"


def read_earlier(place: str) -> Earlier:
    """Every results document at `place`: a file, a directory or `hf://datasets/org/name`.

    A directory that holds a results.json itself is one run's, and means that file.

    Raises:
        SpecError: no such place, or it is a file that is no results document.
        NotStartedError: the Hub can't be reached.
    """
    if place.startswith(HUB_PREFIX):
        repo = place.removeprefix(HUB_PREFIX).strip("/")
        return _read_tree(_download(repo), source=f"{HUB_PREFIX}{repo}")
    path = Path(place).expanduser()
    if (path / RESULTS).is_file():
        path /= RESULTS
    if path.is_dir():
        return _read_tree(path, source=str(path))
    if not path.exists():
        raise SpecError(f"There is nothing at {place}; give a results.json or a directory of runs.")
    run = EarlierRun(results=read_results(path), source=str(path))
    return Earlier(runs=(run,), single=True)


def _read_tree(root: Path, *, source: str) -> Earlier:
    runs, problems = [], []
    for path in find_results(root):
        where = f"{source}/{path.relative_to(root).as_posix()}"
        try:
            runs.append(EarlierRun(results=read_results(path), source=where))
        except SpecError as error:
            problems.append(error.message)
    return Earlier(runs=tuple(runs), problems=tuple(problems))


def find_results(root: Path) -> Iterator[Path]:
    """Each run's results.json below `root`, sorted.

    A run's own directory is not searched deeper: a task in its sandbox may have made a file of
    that name, and what a task made is no result.
    """
    for folder, names, files in root.walk():
        found = RESULTS in files and (folder / RESULTS).is_file()  # no pipe, no device
        if found:
            yield folder / RESULTS
        is_run = found or "spec.json" in files
        names[:] = [] if is_run else sorted(n for n in names if not n.startswith("."))


def _download(repo: str) -> Path:
    """The results files of a dataset (`runs/<name>/results.json`), in the client's cache."""
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    pattern = f"runs/*/{RESULTS}"
    try:
        return Path(snapshot_download(repo, repo_type="dataset", allow_patterns=pattern))
    except HFValidationError as error:
        raise SpecError(f"{repo!r} is no name of a dataset; give {HUB_PREFIX}org/name.") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, httpx.HTTPError) as error:
        why = str(error).strip().splitlines()[0]
        raise NotStartedError(
            f"The results store {HUB_PREFIX}{repo} can't be read ({why}); "
            "check its name and the token's access."
        ) from error
