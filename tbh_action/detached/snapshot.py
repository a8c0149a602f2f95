"""A run directory at work as a few files that can be sent away again and again.

What ended never changes: each recorded trial becomes one archive of its own and is sent once, so
that the hundredth snapshot costs as little as the first. Everything else is small (`state.tar`).
Trials that have not ended are left out: to go on from a snapshot repeats them, as after a kill.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tbh_action.errors import SpecError
from tbh_action.harbor import archive
from tbh_action.harbor.job_dir import trial_directories
from tbh_action.rundir import RunDir
from tbh_action.scoring import ledger
from tbh_action.scoring.ledger import Attempt

STATE: Final = "state.tar"
INDEX: Final = "index.json"
_TRIALS: Final = "trials"
_VERSION: Final = 1

# What tells one state of a trial's directory from another: its files and their sizes.
Stamp = tuple[tuple[str, int], ...]


class ChangedError(Exception):
    """The run changed under our hands; a moment later a snapshot will succeed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """`files`: what to send, by path. `stamps`: of every trial that is in the snapshot, those that
    were sent before included."""

    files: Mapping[str, bytes]
    stamps: Mapping[str, Stamp]


def take(run_dir: RunDir, sent: Mapping[str, Stamp], *, lenient: bool = False) -> Snapshot:
    """The run as it is now; trials whose stamp is in `sent` are not packed again.

    `lenient` takes a JSON file that is cut off as it is: a Harbor that was killed may leave one.

    Raises:
        ChangedError: a file went or was half written meanwhile: try again.
    """
    try:
        # The ledger comes first: a trial that it names must be in the snapshot, or Harbor would
        # run that trial again.
        state = _state(run_dir, lenient=lenient)
        places: dict[str, str] = {}
        stamps: dict[str, Stamp] = {}
        files: dict[str, bytes] = {}
        for attempt in _recorded(state):
            place = archive.find_trial(run_dir, attempt.trial)
            if place is None:
                continue
            places[attempt.trial] = place.relative_to(run_dir.root).as_posix()
            stamps[attempt.trial] = stamp_of(place)
            if sent.get(attempt.trial) != stamps[attempt.trial]:
                files[_trial_file(attempt.trial)] = _packed(place)
            if not place.is_dir() or stamp_of(place) != stamps[attempt.trial]:
                raise ChangedError(f"{attempt.trial} was moved")
    except OSError as error:
        raise ChangedError(str(error)) from error
    index = {"version": _VERSION, "trials": places}
    files[STATE] = _tar(state)
    files[INDEX] = json.dumps(index, indent=1).encode()
    return Snapshot(files=files, stamps=stamps)


def restore(folder: Path, run_dir: RunDir) -> bool:
    """Puts the snapshot in `folder` into the empty `run_dir`; False when there is none.

    Raises:
        SpecError: it is damaged, or of another version.
    """
    if not (folder / INDEX).exists() or not (folder / STATE).exists():
        return False
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        if index["version"] != _VERSION:
            raise SpecError(f"The stored run {run_dir.name} is of another version of tbh.")
        run_dir.root.mkdir(parents=True, exist_ok=True)
        _unpack(folder / STATE, run_dir.root)
        for trial, place in index["trials"].items():
            _unpack(folder / _trial_file(trial), run_dir.root / _inside(place))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, tarfile.TarError) as error:
        raise SpecError(f"The stored run {run_dir.name} is damaged: {error}.") from error
    return True


def stamps_of(run_dir: RunDir) -> dict[str, Stamp]:
    """The stamps of every recorded trial: after a restore, what need not be sent again."""
    found = {}
    for attempt in ledger.read_attempts(run_dir.attempts):
        place = archive.find_trial(run_dir, attempt.trial)
        if place is not None:
            found[attempt.trial] = stamp_of(place)
    return found


def stamp_of(directory: Path) -> Stamp:
    return tuple(
        (path.relative_to(directory).as_posix(), path.stat().st_size)
        for path in _plain_files(directory)
    )


def _state(run_dir: RunDir, *, lenient: bool) -> dict[str, bytes]:
    """Every file but those of trials, whole."""
    places = [run_dir.harbor_job, *run_dir.archives()]
    trials = {path for place in places for path in trial_directories(place)}
    files = {}
    for path in _plain_files(run_dir.root, leave_out=trials):
        name = path.relative_to(run_dir.root).as_posix()
        if path.name.startswith("."):
            continue  # the lock, and files on their way to their name
        files[name] = path.read_bytes()
        if path.suffix == ".json" and not lenient:
            _check(name, files[name])
    return files


def _check(name: str, data: bytes) -> None:
    """Harbor does not replace its files as a whole: one may have been read half."""
    try:
        json.loads(data)
    except ValueError as error:
        raise ChangedError(f"{name} is being written") from error


def _recorded(state: Mapping[str, bytes]) -> Iterator[Attempt]:
    """The attempts in the ledger as it was packed, each trial once."""
    known = set()
    for line in state.get("attempts.jsonl", b"").splitlines():
        try:
            attempt = Attempt.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue  # the last line may be torn; the trial is found again by its directory
        if attempt.trial not in known:
            known.add(attempt.trial)
            yield attempt


def _plain_files(root: Path, leave_out: set[Path] | None = None) -> Iterator[Path]:
    """Files only, sorted: what tasks left as links or devices is no part of a result."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(n for n in names if Path(folder, n) not in (leave_out or ()))
        for name in sorted(files):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _packed(directory: Path) -> bytes:
    files = {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in _plain_files(directory)
    }
    return gzip.compress(_tar(files), mtime=0)


def _tar(files: Mapping[str, bytes]) -> bytes:
    """The same files give the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _unpack(file: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file) as tar:
        # "data" refuses links that leave the directory, devices and absolute paths.
        tar.extractall(target, filter="data")


def _trial_file(trial: str) -> str:
    return f"{_TRIALS}/{_inside(trial).name}.tar.gz"


def _inside(place: str) -> PurePosixPath:
    path = PurePosixPath(place)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise SpecError(f"The stored run names the place {place!r}, which is outside of it.")
    return path
