"""When the model server was away, as its calls saw it: evidence for judging a trial's timeout.

The intervals may be too short, never too long: an interval is only as long as failures kept coming
with no success between them, so that a slow model is never excused by one failed call.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

# Calls that wait for a server try again at least this often (see retry.py), so a longer silence
# says nothing about the server.
_GAP: Final = timedelta(seconds=30)
# What is shorter cost a trial nothing that matters (its lost seconds are counted elsewhere).
_SHORTEST: Final = timedelta(seconds=1)
_KEPT: Final = 5000


@dataclass(frozen=True, kw_only=True, slots=True)
class Outage:
    """From `start` to `end` no call was answered (or calls were held), for `reason`."""

    start: datetime
    end: datetime
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "started_at": self.start.isoformat(),
            "finished_at": self.end.isoformat(),
            "reason": self.reason,
        }


class OutageLog:
    """Turns single failures and successes, in order of time, into outages."""

    def __init__(self) -> None:
        self._closed: deque[Outage] = deque(maxlen=_KEPT)
        self._failing: Outage | None = None
        self._held: Outage | None = None

    def failed(self, at: datetime, reason: str) -> Outage | None:
        """A call found no server. Returns an outage that this closes (see `_GAP`)."""
        failing = self._failing
        if failing is not None and at - failing.end <= _GAP:
            self._failing = Outage(
                start=failing.start, end=max(at, failing.end), reason=failing.reason
            )
            return None
        closed = self._close(failing)
        self._failing = Outage(start=at, end=at, reason=reason)
        return closed

    def worked(self, at: datetime) -> Outage | None:
        """A call was answered. Returns the outage that this ends."""
        failing, self._failing = self._failing, None
        if failing is None:
            return None
        near = at - failing.end <= _GAP
        end = max(failing.end, at) if near else failing.end
        return self._close(Outage(start=failing.start, end=end, reason=failing.reason))

    def held(self, at: datetime, reason: str) -> None:
        """From now on calls wait for us (the server is being replaced)."""
        if self._held is None:
            self._held = Outage(start=at, end=at, reason=reason)

    def released(self, at: datetime) -> Outage | None:
        """Calls no longer wait. Returns the outage that this ends."""
        held, self._held = self._held, None
        if held is None:
            return None
        return self._close(Outage(start=held.start, end=max(at, held.start), reason=held.reason))

    def intervals(self, now: datetime) -> list[Outage]:
        """All outages so far, those that last included."""
        open_ones = [self._failing] if self._failing is not None else []
        if self._held is not None:
            end = max(now, self._held.start)
            open_ones.append(Outage(start=self._held.start, end=end, reason=self._held.reason))
        long_enough = [outage for outage in open_ones if outage.end - outage.start >= _SHORTEST]
        return sorted([*self._closed, *long_enough], key=lambda outage: outage.start)

    def _close(self, outage: Outage | None) -> Outage | None:
        if outage is None or outage.end - outage.start < _SHORTEST:
            return None
        self._closed.append(outage)
        return outage
