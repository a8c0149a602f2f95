"""What the plugin inside Harbor asks, and what it tells: the live view of a pass.

The routes live beside the gateway on the same loopback address. Trials ask here before they start
(`/control/start`, answered late while they have to wait); what happens to them arrives as events.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tbh_action.policy.schedule import Admission
from tbh_action.policy.watchdog import PHASE_AFTER, Phase

# How long a request for admission is held open before the plugin must ask again.
LONG_POLL: Final = 20.0
_RECHECK: Final = 0.5


@dataclass(kw_only=True, slots=True)
class LiveTrial:
    """A trial that Harbor has in hand. Times are this machine's monotonic seconds; `since` is when
    its phase began. The phase is `waiting` until it is admitted."""

    trial: str
    task: str
    phase: Phase
    since: float
    admitted_at: float | None = None
    agent_at: float | None = None
    held: Admission | None = None


class Control:
    """The controller's side of the plugin. `admit` decides; `changed` is told every event."""

    def __init__(
        self,
        key: str,
        *,
        first: Callable[[], list[str]],
        admit: Callable[[str], Admission],
        changed: Callable[[dict[str, Any]], None],
    ) -> None:
        self._key = key
        self._first = first
        self._admit = admit
        self._changed = changed
        self.live: dict[str, LiveTrial] = {}
        self.heard_at: float | None = None
        self._to_cancel: set[str] = set()
        self._wake = asyncio.Event()

    def routes(self) -> list[Route]:
        """To be served beside the gateway's own."""
        return [
            Route(f"/control/{name}", self._guarded(answer), methods=["POST"])
            for name, answer in (
                ("order", self._order),
                ("start", self._start),
                ("event", self._event),
                ("orders", self._orders),
            )
        ]

    @property
    def running(self) -> list[LiveTrial]:
        """The trials that were admitted and have not ended."""
        return [trial for trial in self.live.values() if trial.phase != "waiting"]

    @property
    def waiting(self) -> list[Admission]:
        """What each waiting trial was told last."""
        return [
            trial.held
            for trial in self.live.values()
            if trial.phase == "waiting" and trial.held is not None
        ]

    def cancel(self, trial: str) -> None:
        """Ends a trial at the plugin's next question."""
        self._to_cancel.add(trial)

    def recheck(self) -> None:
        """Something that decides admission changed: waiting trials ask again now."""
        self._wake.set()
        self._wake = asyncio.Event()

    def new_pass(self) -> None:
        """Forgets the trials of the last Harbor process."""
        self.live.clear()
        self._to_cancel.clear()
        self.heard_at = None

    def _guarded(self, answer: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> JSONResponse:
            given = request.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self._key}".encode()):
                raise HTTPException(401)
            self.heard_at = time.monotonic()
            return JSONResponse(await answer(await request.json()))

        return endpoint

    async def _order(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"first": self._first()}

    async def _start(self, body: dict[str, Any]) -> dict[str, Any]:
        name, task = str(body["trial"]), str(body["task"])
        now = time.monotonic()
        trial = self.live.setdefault(
            name, LiveTrial(trial=name, task=task, phase="waiting", since=now)
        )
        if trial.phase != "waiting":
            return {"go": True}  # asked again: the answer was lost on its way
        deadline = now + LONG_POLL
        while True:
            admission = self._admit(task)
            if admission.go:
                trial.phase, trial.held = PHASE_AFTER["start"], None
                trial.since = trial.admitted_at = time.monotonic()
                self._changed({"event": "admitted", "trial": name, "task": task})
                return {"go": True}
            if trial.held is None or trial.held.reason != admission.reason:
                self._changed(
                    {"event": "held", "trial": name, "task": task, "reason": admission.reason}
                )
            trial.held = admission
            if time.monotonic() > deadline:
                return {"go": False}
            await self._woken()

    async def _woken(self) -> None:
        try:
            async with asyncio.timeout(_RECHECK):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _event(self, body: dict[str, Any]) -> dict[str, Any]:
        name, event = str(body.get("trial")), str(body.get("event"))
        now = time.monotonic()
        trial = self.live.get(name)
        if trial is not None and event in PHASE_AFTER:
            trial.phase, trial.since = PHASE_AFTER[event], now
            if event == "agent-start" and trial.agent_at is None:
                trial.agent_at = now
        # The trial still counts as running while it is being recorded.
        self._changed(body)
        if event == "end":
            self.live.pop(name, None)
            self.recheck()
        return {}

    async def _orders(self, _: dict[str, Any]) -> dict[str, Any]:
        orders, self._to_cancel = sorted(self._to_cancel), set()
        return {"cancel": orders}
