"""Harbor's own files after a kill or a full disk.

Harbor writes its files in place, the job's result.json at every event of a trial. One that was torn
is one that it refuses to read: without this the job could never be resumed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tbh_action.harbor.documents import UnreadableError, read_object
from tbh_action.harbor.job_dir import trial_directories
from tbh_action.rundir import write_atomic, write_json

_LIMIT: Final = 1024**3


def mend(job: Path, config: Path) -> list[str]:
    """Puts right what is torn in `job`, so that Harbor can resume it. Returns what was, relative
    to the job. No trial's result is touched.

    The job's config comes from `config` (what `harbor run` was given), a trial's from its result;
    what Harbor computes anew (its totals, its lock) is taken away.
    """
    mended = []
    for name in ("result.json", "lock.json"):
        if _torn(job / name):
            (job / name).unlink()
            mended.append(name)
    if _torn(job / "config.json") and _object(config) is not None:
        write_atomic(job / "config.json", config.read_text(encoding="utf-8"))
        mended.append("config.json")
    for trial in trial_directories(job):
        if not trial.is_symlink() and _torn(trial / "config.json"):
            asked = (_object(trial / "result.json") or {}).get("config")
            if isinstance(asked, dict):
                write_json(trial / "config.json", asked)
                mended.append(f"{trial.name}/config.json")
    return mended


def _torn(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and _object(path) is None


def _object(path: Path) -> dict[str, Any] | None:
    try:
        return read_object(path, _LIMIT)
    except UnreadableError:
        return None
