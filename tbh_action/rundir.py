"""A run's directory: where each file lies, and how it is written so that no crash can spoil it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tbh_action.errors import NotStartedError, SpecError

HARBOR_JOB: Final = "job"
# What may lie in a run directory before its spec is written; `_NEW` ends the name of a file whose
# writing a kill interrupted.
_OURS: Final = frozenset(
    {".lock", "harbor", "harbor-question.json", "tasks.json", "events.jsonl", "state.json"}
)
_NEW: Final = ".new"


@dataclass(frozen=True, slots=True)
class RunDir:
    """The paths inside `runs/<name>/`. All of them are absolute."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def spec(self) -> Path:
        return self.root / "spec.json"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def attempts(self) -> Path:
        return self.root / "attempts.jsonl"

    @property
    def tasks(self) -> Path:
        """What Harbor resolved: each task's name, image, needs, timeouts, digest."""
        return self.root / "tasks.json"

    @property
    def harbor_config(self) -> Path:
        return self.root / "harbor-job.json"

    @property
    def harbor_job(self) -> Path:
        return self.root / "harbor" / HARBOR_JOB

    @property
    def harbor_log(self) -> Path:
        return self.root / "harbor.log"

    @property
    def results(self) -> Path:
        return self.root / "results.json"

    @property
    def report(self) -> Path:
        return self.root / "report"

    def archive(self, pass_number: int) -> Path:
        """Where the trials that pass `pass_number` ran and a later one repeated are kept."""
        return self.root / "archive" / f"pass-{pass_number}"

    def archives(self) -> list[Path]:
        found = (self.root / "archive").glob("pass-*")
        return sorted((p for p in found if p.name[5:].isdecimal()), key=lambda p: int(p.name[5:]))


def open_run_dir(root: Path) -> RunDir:
    """The run directory at `root`, made if absent.

    Raises:
        SpecError: the path exists and is not a directory, or holds files that are not a run's.
        NotStartedError: it cannot be made, read or written to.
    """
    run_dir = RunDir(root.expanduser().resolve())
    try:
        run_dir.root.mkdir(parents=True, exist_ok=True)
        foreign = [] if run_dir.spec.exists() else _foreign(run_dir.root)
    except (FileExistsError, NotADirectoryError) as error:
        raise SpecError(f"{root} is a file; give a directory for the run (--run-dir).") from error
    except OSError as error:
        raise NotStartedError(_unusable(root, error)) from error
    if foreign:
        raise SpecError(
            f"{root} is not empty and holds no run of ours ({foreign[0]!r}, …); "
            "give another --run-dir or --name."
        )
    return run_dir


def _foreign(root: Path) -> list[str]:
    names = sorted(entry.name for entry in root.iterdir())
    return [
        name
        for name in names
        if name not in _OURS and not (name.startswith(".") and name.endswith(_NEW))
    ]


def _unusable(root: Path, error: OSError) -> str:
    return (
        f"The run directory {root} cannot be used: {error.strerror}; "
        "give another --run-dir or --name."
    )


def utc_now() -> str:
    """Now, as every file of a run writes it: ISO 8601, UTC, milliseconds, `Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write_atomic(path: Path, text: str) -> None:
    """Replaces `path` as a whole: a reader sees the old text or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_NEW)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; these are for everybody who may read the run.
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, document: Any) -> None:
    """`document` as indented JSON, atomically. NaN is refused (ValueError)."""
    write_atomic(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def append_line(path: Path, document: dict[str, Any]) -> None:
    """One JSON object as one line, in one write, so that lines of two writers never mix.

    Raises:
        OSError: it was not written, or only a part of it (a full disk).
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n"
    line = text.encode("utf-8", errors="replace")
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if os.write(handle, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(handle)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file; a line that a crash tore is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict):
                yield document


@contextlib.contextmanager
def locked(run_dir: RunDir) -> Iterator[None]:
    """Holds the run for this process; the lock dies with the process, however that ends.

    Raises:
        NotStartedError: another process holds it (the message names the host and the process), or
            the directory cannot be written to.
    """
    try:
        file = (run_dir.root / ".lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise NotStartedError(_unusable(run_dir.root, error)) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise NotStartedError(
                f"The run {run_dir.root} is in use by {holder}; "
                "wait for it, or give another --name."
            ) from error
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {utc_now()}")
        file.flush()
        yield
