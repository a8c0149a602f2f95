"""The public record of a run: what others need to check its score, and nothing that is secret.

A bundle has the layout of a run directory, so that every command that reads one reads the other:

    results.json spec.json tasks.json attempts.jsonl report/
    harbor/job/<trial>/result.json, archive/pass-N/<trial>/result.json   (and config.json)
    MANIFEST.json   the SHA-256 of each file, and what was left out and why

The same run gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import SpecError
from tbh_action.harbor.documents import AbsentError, UnreadableError, parse_object, read_bytes
from tbh_action.harbor.job_dir import trial_directories
from tbh_action.redact import MASK, Redactor, find_clear_keys
from tbh_action.report.write import write_all
from tbh_action.rundir import RunDir, read_lines
from tbh_action.scoring import results

MANIFEST: Final = "MANIFEST.json"
MANIFEST_VERSION: Final = 1
_MAX_TRAJECTORY: Final = 64 * 1024 * 1024
_MAX_TRAJECTORIES: Final = 2 * 1024**3
_MAX_CONFIG: Final = 64 * 1024 * 1024
_CONFIGS: Final = ("config.json", "lock.json")
# What of results.json comes from the spec: a key in it would be the user's own, in clear.
_FROM_SPEC: Final = ("model", "benchmark", "agent", "fingerprint_fields", "provenance")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """A bundle on disk. `files` are sizes in bytes and `left_out` reasons, by path; `warnings`
    are sentences that the run's owner should read."""

    root: Path
    files: Mapping[str, int]
    left_out: Mapping[str, str]
    warnings: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(self.files.values())


@dataclass(slots=True)
class _Work:
    run_dir: RunDir
    target: Path
    redactor: Redactor
    left_out: dict[str, str] = field(default_factory=dict)
    keys: dict[str, list[str]] = field(default_factory=dict)
    masked: list[str] = field(default_factory=list)
    raw: dict[str, bytes] = field(default_factory=dict)

    def leave_out(self, path: Path, reason: str) -> None:
        self.left_out[self.redactor.text(_relative(self.run_dir, path))] = reason

    def write(self, name: str, data: bytes) -> None:
        path = self.target / self.redactor.text(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def write_document(self, name: str, document: Any, original: bytes | None = None) -> None:
        """A JSON value without secrets; byte for byte the original where that holds none."""
        clean = self.redactor.document(document)
        if original is not None and clean == document and self._is_clean(original):
            self.write(name, original)
            return
        if clean != document:
            self.masked.append(name)
        self.write(name, _dumps(clean))

    def _is_clean(self, data: bytes) -> bool:
        text = data.decode("utf-8", errors="replace")
        return self.redactor.text(text) == text


def make_bundle(
    run_dir: RunDir,
    target: Path,
    *,
    trajectories: bool = False,
    redactor: Redactor | None = None,
) -> Bundle:
    """Writes the bundle of a run into the empty directory `target`.

    Args:
        run_dir: a run with results.json and a ledger.
        target: an empty or absent directory outside of it.
        trajectories: take what the agent did in each trial, too.
        redactor: knows the secrets (default: those in the environment).

    Raises:
        SpecError: no results, no ledger, or a spec that holds a key in clear.
    """
    work = _Work(run_dir, target, redactor or Redactor.from_environment())
    document = results.read(run_dir.results)
    if not run_dir.attempts.exists():
        raise SpecError(
            f"{run_dir.root} has no attempts.jsonl: a merged or foreign result has no trials to "
            "be checked by. Publish the runs that it was made from."
        )
    _refuse_keys(run_dir.results, {key: document.get(key) for key in _FROM_SPEC}, work.redactor)
    target.mkdir(parents=True, exist_ok=True)
    clean = work.redactor.document(document)
    work.write("results.json", results.dumps(clean).encode())
    for path in (run_dir.spec, run_dir.tasks):
        _copy_asked(work, path)
    _copy_ledger(work)
    write_all(clean, target / "report", redactor=work.redactor)
    for trial in _trials(run_dir):
        _copy_trial(work, trial)
    for name in _CONFIGS:
        _copy_config(work, run_dir.harbor_job / name)
    if trajectories:
        _copy_trajectories(work)
    _copy_raw(work)
    return _finish(work, str(clean["run"]["name"]))


def _refuse_keys(path: Path, document: Any, redactor: Redactor) -> None:
    places = find_clear_keys(document, redactor)
    if places:
        raise SpecError(
            f"{path} holds a key in clear at {places[0]}: it must not be published. Rotate the "
            "key, give it by environment (${NAME}) and run again."
        )


def _copy_asked(work: _Work, path: Path) -> None:
    """spec.json or tasks.json, where the run has it."""
    try:
        data = read_bytes(path, _MAX_CONFIG)
        document = parse_object(data, path.name)
    except AbsentError:
        return
    except UnreadableError as error:
        raise SpecError(f"{path.parent} can't be published: {error}.") from error
    _refuse_keys(path, document, work.redactor)
    if path == work.run_dir.tasks:
        # Where the tasks lay on the machine that ran them is nobody's business.
        tasks = [{**task, "directory": ""} for task in document.get("tasks", ())]
        work.write_document(path.name, {**document, "tasks": tasks})
    else:
        work.write_document(path.name, document, data)


def _copy_ledger(work: _Work) -> None:
    lines = [
        json.dumps(work.redactor.document(line), ensure_ascii=False) + "\n"
        for line in read_lines(work.run_dir.attempts)
    ]
    work.write("attempts.jsonl", "".join(lines).encode("utf-8", errors="replace"))


def _trials(run_dir: RunDir) -> Iterator[Path]:
    for place in (run_dir.harbor_job, *run_dir.archives()):
        yield from (path for path in trial_directories(place) if not path.is_symlink())


def _copy_trial(work: _Work, trial: Path) -> None:
    """A trial's result, and its config. A key in clear in a result is masked: without the result
    nobody could check the score."""
    path = trial / "result.json"
    name = _relative(work.run_dir, path)
    try:
        data = read_bytes(path)
    except UnreadableError as error:
        work.leave_out(path, str(error))
    else:
        try:
            document = parse_object(data, path.name)
        except UnreadableError:
            work.raw[name] = data
        else:
            found = find_clear_keys(document.get("config"), work.redactor)
            if found:
                work.keys.setdefault(f"config.{found[0]}", []).append(name)
                document["config"] = _masked(document["config"], work.redactor)
            work.write_document(name, document, None if found else data)
    _copy_config(work, trial / "config.json")


def _masked(value: Any, redactor: Redactor, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _masked(item, redactor, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, redactor, name) for item in value]
    return MASK if isinstance(value, str) and find_clear_keys({name: value}, redactor) else value


def _copy_config(work: _Work, path: Path) -> None:
    """A file of Harbor's that no score rests on: refused as a whole when it holds a key."""
    try:
        data = read_bytes(path, _MAX_CONFIG)
        document = parse_object(data, path.name)
    except AbsentError:
        return
    except UnreadableError as error:
        work.leave_out(path, str(error))
        return
    found = find_clear_keys(document, work.redactor)
    if found:
        name = _relative(work.run_dir, path)
        work.keys.setdefault(found[0], []).append(name)
        work.leave_out(path, f"holds a key in clear at {found[0]}")
        return
    work.write_document(_relative(work.run_dir, path), document, data)


def _copy_trajectories(work: _Work) -> None:
    room = _MAX_TRAJECTORIES
    for trial in _trials(work.run_dir):
        for path in sorted((trial / "agent").glob("trajectory*.json")):
            try:
                data = read_bytes(path, min(room, _MAX_TRAJECTORY))
                document = parse_object(data, path.name)
            except UnreadableError as error:
                work.leave_out(path, str(error))
                continue
            room -= len(data)
            work.write_document(_relative(work.run_dir, path), document, data)


def _copy_raw(work: _Work) -> None:
    """Results that are no JSON: masked as bytes."""
    if not work.raw:
        return
    with tempfile.TemporaryDirectory(prefix="tbh-bundle-") as folder:
        source, clean = Path(folder, "source"), Path(folder, "clean")
        for number, data in enumerate(work.raw.values()):
            source.mkdir(exist_ok=True)
            (source / str(number)).write_bytes(data)
        report = work.redactor.tree(source, clean)
        for number, name in enumerate(work.raw):
            if reason := report.left_out.get(str(number)):
                work.left_out[work.redactor.text(name)] = reason
            else:
                work.write(name, (clean / str(number)).read_bytes())


def _finish(work: _Work, name: str) -> Bundle:
    files = dict(sorted(file_facts(work.target)))
    manifest = {
        "version": MANIFEST_VERSION,
        "run": name,
        "files": {
            path: {"sha256": digest, "bytes": size} for path, (digest, size) in files.items()
        },
        "left_out": dict(sorted(work.left_out.items())),
    }
    data = (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()
    (work.target / MANIFEST).write_bytes(data)
    sizes = {path: size for path, (_, size) in files.items()} | {MANIFEST: len(data)}
    return Bundle(
        root=work.target, files=sizes, left_out=work.left_out, warnings=tuple(_warnings(work))
    )


def file_facts(root: Path) -> Iterator[tuple[str, tuple[str, int]]]:
    """SHA-256 and size of each regular file below `root`, by path; a manifest excepted."""
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if name != MANIFEST and not path.is_symlink() and path.is_file():
            with path.open("rb") as file:
                yield name, (hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def _warnings(work: _Work) -> Iterator[str]:
    for place, files in sorted(work.keys.items()):
        yield (
            f"{_files(files)} held a key in clear at {place}; it is not published, but it lies in "
            "the run directory: rotate it."
        )
    if work.masked:
        yield f"{_files(work.masked)} held secrets, which are masked."


def _files(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files ({names[0]}, …)"


def _dumps(document: Any) -> bytes:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    return text.encode("utf-8", errors="backslashreplace")


def _relative(run_dir: RunDir, path: Path) -> str:
    return path.relative_to(run_dir.root).as_posix()
