"""One server that has answered, and how it is watched: stage and health in parallel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import httpx

from tbh_action.server import health
from tbh_action.server.bring_up import ReadyServer
from tbh_action.server.job_watch import JobWatch
from tbh_action.server.supervisor_rules import Seen
from tbh_action.server.vitals import Vitals

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob

ENDPOINT: Final = "endpoint"


class LiveServer:
    """Watches one server. `load_time` is what its start took, in seconds."""

    def __init__(
        self,
        api: HfApi | None,
        ready: ReadyServer,
        model: str,
        *,
        load_time: float,
        record: Callable[[PaidJob], None],
    ) -> None:
        self.ready = ready
        self._model = model
        self._watch = None
        if api is not None and ready.job is not None:
            self._watch = JobWatch(api, ready.job, record)
        self._vitals = Vitals(
            ours=ready.job is not None and not ready.job.borrowed,
            since=time.monotonic(),
            load_time=load_time,
        )
        self._client = httpx.AsyncClient(trust_env=False)
        self._conversation: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The job's id; the same as the gateway's name for it."""
        return self.ready.job.job_id if self.ready.job else ENDPOINT

    @property
    def job(self) -> PaidJob | None:
        """The job as last seen."""
        return self._watch.job if self._watch else None

    @property
    def detail(self) -> str:
        """What the last failed probe said."""
        return self._vitals.detail

    async def look(self, *, silent: bool) -> None:
        """Asks the Hub for the stage and the server for its health, at once."""
        probing = asyncio.create_task(
            health.probe_health(self._client, self.ready.base_url, self.ready.token)
        )
        try:
            if self._watch is not None and (await self._watch.look()).ended:
                return
            self._vitals.probed(await probing, time.monotonic(), silent=silent)
        finally:
            probing.cancel()

    def converse(self) -> None:
        """Begins a conversation, in the background: it may take minutes, and the stage must be
        looked at meanwhile."""
        if not self._vitals.asking:
            self._vitals.asking = True
            self._conversation = asyncio.create_task(self._converse())

    async def _converse(self) -> None:
        probe = await health.probe_completion(
            self._client,
            self.ready.base_url,
            self.ready.token,
            self._model,
            limit=health.COMPLETION_TIMEOUT,
        )
        self._vitals.asked(probe, time.monotonic())

    def seen(
        self,
        *,
        answered_ago: float | None,
        silent_for: float,
        successor: Literal["none", "starting", "ready"],
        relaunches: int,
    ) -> Seen:
        """All that is known, as the rules read it."""
        return self._vitals.seen(
            time.monotonic(),
            job=self.job,
            away=self._watch.away if self._watch else True,
            answered_ago=answered_ago,
            silent_for=silent_for,
            successor=successor,
            relaunches=relaunches,
        )

    async def aclose(self) -> None:
        """Ends the watching, not the server."""
        if self._conversation is not None:
            self._conversation.cancel()
        await self._client.aclose()
