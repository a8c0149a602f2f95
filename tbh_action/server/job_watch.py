"""A job of ours as the Hub says it is, look by look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tbh_action.server import hf_job
from tbh_action.server.hub_errors import explain, hub_errors, status_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob

# A job that was just created may be unknown for a moment; one that is gone stays unknown.
_MISSING_TIMES: Final = 3


class JobWatch:
    """Asks the Hub about one job. `record` is told each change.

    `job` is the newest state. `away`: the Hub could not be asked last time, `trouble` is what it
    said. `refused` counts in a row how often it refused our token.
    """

    def __init__(self, api: HfApi, job: PaidJob, record: Callable[[PaidJob], None]) -> None:
        self._api = api
        self._record = record
        self._missing = 0
        self.job = job
        self.away = False
        self.refused = 0
        self.trouble = ""

    async def look(self) -> PaidJob:
        """The job's newest state; a Hub that can't be asked now changes nothing."""
        try:
            newer = await asyncio.to_thread(hf_job.inspect, self._api, self.job)
        except hub_errors(ValueError, KeyError, TypeError) as error:
            newer = self._failed(status_of(error), explain(error))
        else:
            self.away, self.trouble, self.refused, self._missing = False, "", 0, 0
        if newer != self.job:
            self.job = newer
            self._record(newer)
        return newer

    def _failed(self, status: int | None, words: str) -> PaidJob:
        self.trouble = words
        self.refused = self.refused + 1 if status in (401, 403) else 0
        self._missing = self._missing + 1 if status == 404 else 0
        # A 404 is an answer: the Hub is there, the job is not.
        self.away = status != 404
        if self._missing >= _MISSING_TIMES:
            return replace(self.job, stage="DELETED", message="the Hub does not know the job")
        return self.job
