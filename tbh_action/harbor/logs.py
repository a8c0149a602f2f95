"""The end of a trial's log: what a reader of the report wants to see of a failure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tbh_action.harbor.documents import clean

# The first of these that says something, for each kind of end.
_AFTER_ERROR: Final = ("exception.txt", "trial.log", "agent/terminus_2.pane")
_AFTER_FAILURE: Final = ("verifier/test-stdout.txt", "verifier/test-stderr.txt", "trial.log")
MAX_TAIL: Final = 2000
# All tails of a run together; a report must stay small enough to open.
MAX_ALL_TAILS: Final = 4_000_000


def log_tail(directory: Path, *, scored: bool, limit: int = MAX_TAIL) -> str | None:
    """The last `limit` characters of the log that explains the trial's end, None without one."""
    place = os.fspath(directory)
    for name in _AFTER_FAILURE if scored else _AFTER_ERROR:
        text = _tail(f"{place}/{name}", limit).strip()
        if text:
            return text
    return None


def _tail(path: str, limit: int) -> str:
    """The end of a regular file; links are not followed, since a task could have made them."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        try:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit * 4))
            data = file.read(limit * 4)
        except OSError:
            return ""
    return clean(data.decode("utf-8", errors="replace")[-limit:])
