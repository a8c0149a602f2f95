"""The servers of a run that answer now, as the gateway and the run see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tbh_action.gateway import Gateway, Upstream
from tbh_action.scoring.failures import Interval
from tbh_action.server.live_server import LiveServer


class Fleet:
    """Keeps the gateway pointed at the servers that answer; holds it while there is none.

    `changed` wakes who waits for a server; it is replaced at each change.
    """

    def __init__(self, gateway: Gateway | None, journal: Callable[[dict[str, Any]], None]) -> None:
        self._gateway = gateway
        self._journal = journal
        self._servers: dict[int, LiveServer] = {}
        self._away: tuple[datetime, str] | None = None
        self._ended: list[Interval] = []
        self.changed = asyncio.Event()

    @property
    def servers(self) -> list[LiveServer]:
        """Those that answer, in order of their places."""
        return [server for _, server in sorted(self._servers.items())]

    @property
    def outages(self) -> list[Interval]:
        """When none answered, after the first one had; the time that lasts included."""
        if self._away is None:
            return list(self._ended)
        since, reason = self._away
        return [*self._ended, Interval(start=since, end=max(_now(), since), reason=reason)]

    def enter(self, place: int, server: LiveServer) -> None:
        """`server` answers; it takes the place of the one that stood there."""
        if self._servers.get(place) is server:
            return
        if not self._servers and self._away is not None:
            outage = self.outages[-1]
            self._ended.append(outage)
            self._away = None
            self._event(
                "server_outage",
                started_at=outage.start.isoformat(),
                finished_at=outage.end.isoformat(),
                reason=outage.reason,
            )
        self._servers[place] = server
        self._event("server_ready", name=server.name, place=place)
        self._publish()

    def leave(self, place: int, *, bad_for: timedelta, reason: str) -> None:
        """The server of `place` no longer counts, and did not answer for `bad_for` already."""
        server = self._servers.pop(place)
        self._event("server_lost", name=server.name, place=place, reason=reason)
        if not self._servers:
            self._away = (_now() - bad_for, reason)
        self._publish()
        if self._gateway is not None:
            self._gateway.abandon(server.name)

    def wake(self) -> None:
        """Something else changed that a waiter should know."""
        self.changed.set()
        self.changed = asyncio.Event()

    def _publish(self) -> None:
        self.wake()
        if self._gateway is None:
            return
        self._gateway.set_upstreams(
            [Upstream(name=server.name, url=server.ready.base_url) for server in self.servers]
        )
        if self._away is None:
            self._gateway.release()
        else:
            self._gateway.hold(self._away[1])

    def _event(self, event: str, **fields: Any) -> None:
        self._journal({"event": event, **fields})


def _now() -> datetime:
    return datetime.now(UTC)
