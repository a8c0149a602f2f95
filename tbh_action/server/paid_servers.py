"""The server jobs that a run pays for: on record before they exist, ended with the run."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tbh_action.errors import NotStartedError
from tbh_action.server import hf_job
from tbh_action.server.hub_errors import hub_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob
    from tbh_action.spec import RunSpec

_CANCEL_TRIES: Final = 3
_CANCEL_PAUSE: Final = 1.0
# A creation call that is under way can't be called back; how long a stop waits for its answer.
_CREATION_SECONDS: Final = 45.0


class PaidServers:
    """Creates and cancels server jobs. `record` is told each change of each of them."""

    def __init__(
        self, api: HfApi, spec: RunSpec, run_id: str, *, record: Callable[[PaidJob], None]
    ) -> None:
        self._api = api
        self._spec = spec
        self._run_id = run_id
        self._record = record
        self._jobs: dict[str, PaidJob] = {}
        self._creating: set[asyncio.Future[PaidJob]] = set()
        self._stopping = threading.Event()
        # Threads of their own: a cancel call must not wait behind calls to a Hub that hangs.
        self._cancelling = ThreadPoolExecutor(8, thread_name_prefix="cancel")

    @property
    def jobs(self) -> list[PaidJob]:
        """All of them as last seen, in order of creation."""
        return list(self._jobs.values())

    def note(self, job: PaidJob) -> None:
        """What was learned of a job, to our record and the run's."""
        self._jobs[job.nonce or job.job_id] = job
        # A full disk must not end the watch over what is paid; the Hub's labels say the same.
        with contextlib.suppress(OSError):
            self._record(job)

    async def create(self) -> PaidJob:
        """A new server job.

        Raises:
            NotStartedError: refused, failed, or the run is being stopped.
        """
        job = hf_job.new_server(self._spec)
        if self._stopping.is_set():
            raise NotStartedError("The run is being stopped; no server is started.")
        try:
            self._record(job)
        except OSError as error:
            raise NotStartedError(
                f"The server job can't be put on record, so it is not started: {error}."
            ) from error
        self._jobs[job.nonce] = job
        call = asyncio.ensure_future(
            asyncio.to_thread(
                hf_job.create_server,
                self._api,
                self._spec,
                job,
                self._run_id,
                sleep=self._stopping.wait,
                wanted=lambda: not self._stopping.is_set(),
            )
        )
        self._creating.add(call)
        call.add_done_callback(functools.partial(self._created, job))
        # Shielded: when we are cancelled, the call goes on all the same, and `_created` notes what
        # it made.
        return await asyncio.shield(call)

    def _created(self, job: PaidJob, call: asyncio.Future[PaidJob]) -> None:
        self._creating.discard(call)
        if call.cancelled():
            return
        error = call.exception()
        if error is None:
            self.note(call.result())
        elif isinstance(error, hf_job.RefusedError):
            self.note(replace(job, stage="ERROR", message="the Hub refused to start it"))

    async def cancel(self, job: PaidJob) -> bool:
        """Cancels a job, in a few tries. False when it may still be running."""
        key = job.nonce or job.job_id
        for attempt in range(_CANCEL_TRIES):
            job = self._jobs.get(key, job)
            if job.ended:
                return True
            if await self._in_thread(hf_job.cancel, job):
                await self._note_end(job)
                return True
            await asyncio.sleep(_CANCEL_PAUSE * (attempt + 1))
        return False

    async def cancel_all(self) -> list[PaidJob]:
        """Cancels all jobs and lets no other begin. Returns those that may still be running."""
        self._stopping.set()
        # First what is known: these calls must reach the Hub at once.
        await self._cancel_living()
        await self.settled()
        await self._cancel_living()
        return [job for job in self.jobs if not job.ended]

    async def settled(self) -> None:
        """Returns once no creation is under way (or after a while: see the nonce)."""
        if self._creating:
            await asyncio.wait(set(self._creating), timeout=_CREATION_SECONDS)

    async def _cancel_living(self) -> None:
        # A job without an id whose creation is under way is looked for after that.
        living = [job for job in self.jobs if not job.ended and (job.job_id or not self._creating)]
        await asyncio.gather(*(self.cancel(job) for job in living))

    async def _note_end(self, job: PaidJob) -> None:
        """The Hub may say for a moment that a cancelled job runs; for us it has ended now."""
        try:
            newest = await self._in_thread(hf_job.inspect, job) if job.job_id else job
        except hub_errors(ValueError, KeyError, TypeError):
            newest = job
        self.note(newest if newest.ended else replace(newest, stage="CANCELED"))

    async def _in_thread[T](self, call: Callable[[HfApi, PaidJob], T], job: PaidJob) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._cancelling, call, self._api, job)
