"""When the model server was away, as its calls saw it: evidence for judging a trial's timeout.

The intervals may be too short, never too long: an interval is only as long as failures kept coming
with no success between them, so that a slow model is never excused by one failed call.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Any, Final

from tbh_action.scoring.failures import Interval

# Calls that wait for a server try again at least this often (see retry.py), so a longer silence
# says nothing about the server.
_GAP: Final = timedelta(seconds=30)
# What is shorter cost a trial nothing that matters (its lost seconds are counted elsewhere).
_SHORTEST: Final = timedelta(seconds=1)
_KEPT: Final = 5000


def outage_event(outage: Interval) -> dict[str, Any]:
    """An outage as a line of the run's events."""
    return {
        "started_at": outage.start.isoformat(),
        "finished_at": outage.end.isoformat(),
        "reason": outage.reason,
    }


class OutageLog:
    """Turns single failures and successes, in order of time, into outages."""

    def __init__(self) -> None:
        self._closed: deque[Interval] = deque(maxlen=_KEPT)
        self._failing: Interval | None = None
        self._held: Interval | None = None

    def failed(self, at: datetime, reason: str) -> Interval | None:
        """A call found no server. Returns an outage that this closes (see `_GAP`)."""
        failing = self._failing
        if failing is not None and at - failing.end <= _GAP:
            self._failing = Interval(
                start=failing.start, end=max(at, failing.end), reason=failing.reason
            )
            return None
        closed = self._close(failing)
        self._failing = Interval(start=at, end=at, reason=reason)
        return closed

    def worked(self, at: datetime) -> Interval | None:
        """A call was answered. Returns the outage that this ends."""
        failing, self._failing = self._failing, None
        if failing is None:
            return None
        near = at - failing.end <= _GAP
        end = max(failing.end, at) if near else failing.end
        return self._close(Interval(start=failing.start, end=end, reason=failing.reason))

    def held(self, at: datetime, reason: str) -> None:
        """From now on calls wait for us (the server is being replaced)."""
        if self._held is None:
            self._held = Interval(start=at, end=at, reason=reason)

    def released(self, at: datetime) -> Interval | None:
        """Calls no longer wait. Returns the outage that this ends."""
        held, self._held = self._held, None
        if held is None:
            return None
        return self._close(Interval(start=held.start, end=max(at, held.start), reason=held.reason))

    def intervals(self, now: datetime) -> list[Interval]:
        """All outages so far, those that last included."""
        open_ones = [self._failing] if self._failing is not None else []
        if self._held is not None:
            end = max(now, self._held.start)
            open_ones.append(Interval(start=self._held.start, end=end, reason=self._held.reason))
        long_enough = [outage for outage in open_ones if outage.end - outage.start >= _SHORTEST]
        return sorted([*self._closed, *long_enough], key=lambda outage: outage.start)

    def _close(self, outage: Interval | None) -> Interval | None:
        if outage is None or outage.end - outage.start < _SHORTEST:
            return None
        self._closed.append(outage)
        return outage
