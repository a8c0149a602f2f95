"""The hidden line that makes a comment ours: which key, which run wrote it, and in what state.

    <!-- tbh-action key=9f86d081884c7d65 run=12 attempt=1 sha=0123abc state=done -->

The key is a digest, so that no workflow's or job's name can end the HTML comment or look like
another key. A marker proves nothing by itself (anybody can quote it): the author is checked too.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final, Literal, cast

State = Literal["in-progress", "done"]

_PATTERN: Final = re.compile(
    r"<!-- tbh-action key=(?P<key>[0-9a-f]{16}) run=(?P<run>\d{1,18}) "
    r"attempt=(?P<attempt>\d{1,9}) sha=(?P<sha>[0-9a-f]{0,64}) "
    r"state=(?P<state>in-progress|done) -->"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Marker:
    """A parsed marker. `key` is the digest; (run, attempt) orders the writers of one key."""

    key: str
    run_number: int
    attempt: int = 1
    sha: str = ""
    state: State = "done"

    @property
    def version(self) -> tuple[int, int]:
        return (self.run_number, self.attempt)

    def __str__(self) -> str:
        return (
            f"<!-- tbh-action key={self.key} run={self.run_number} attempt={self.attempt} "
            f"sha={self.sha} state={self.state} -->"
        )


def digest(key: str) -> str:
    """The 16 hexadecimal digits that stand for `key` in a marker."""
    return hashlib.sha256(key.encode("utf-8", errors="replace")).hexdigest()[:16]


def marker(key: str, run_number: int, sha: str, *, attempt: int = 1, state: State = "done") -> str:
    """The marker's text for `key` (any string). A `sha` that is none is left out."""
    clean = sha.lower() if re.fullmatch(r"[0-9a-fA-F]{7,64}", sha) else ""
    return str(
        Marker(key=digest(key), run_number=run_number, attempt=attempt, sha=clean, state=state)
    )


def parse(text: str) -> Marker | None:
    """The marker at the very start of `text`. One that is quoted further down is not ours."""
    found = _PATTERN.match(text.lstrip())
    if found is None:
        return None
    return Marker(
        key=found["key"],
        run_number=int(found["run"]),
        attempt=int(found["attempt"]),
        sha=found["sha"],
        state=cast("State", found["state"]),
    )


def strip(text: str) -> str:
    """`text` without any marker, so that a new one can be put in front."""
    return _PATTERN.sub("", text).lstrip()
