"""From a job that was created to a model server that answers, or one line that says why not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx

from tbh_action.durations import format_duration
from tbh_action.errors import NotStartedError
from tbh_action.escape import one_line, terminal
from tbh_action.redact import Redactor
from tbh_action.server import hf_job
from tbh_action.server.causes import cause_of_death
from tbh_action.server.health import Probe, probe_all
from tbh_action.server.job_watch import JobWatch

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob
    from tbh_action.spec import RunSpec

POLL: Final = 5.0
# A refused token is not cured by waiting, but a fresh job's route may need a moment; so may a
# server whose routes come up one after the other.
_HOPELESS_AFTER: Final = 6
_LOGS_SECONDS: Final = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyServer:
    """A server that has answered a conversation. `job` is None for an endpoint that is not ours."""

    base_url: str
    token: str | None
    context_length: int | None = None
    job: PaidJob | None = None


class ServerDiedError(NotStartedError):
    """The server's job ended before it was healthy."""


async def until_ready(
    api: HfApi,
    spec: RunSpec,
    job: PaidJob,
    *,
    record: Callable[[PaidJob], None],
    say: Callable[[str], None],
    poll: float = POLL,
) -> ReadyServer:
    """Waits until a created job (new, or left by an earlier leg) is scheduled, loaded and answers.

    `record` is told each change. The job is not cancelled here, whatever happens.

    Raises:
        ServerDiedError: the job ended.
        NotStartedError: too late, or hopeless.
    """
    server = spec.server
    assert server is not None
    watch = JobWatch(api, job, record)
    await _until_running(watch, api, server.schedule_timeout, poll)
    say(f"server job {job.job_id} is running; waiting for the model to load")
    loading = _Loading(watch, spec, str(api.token or hf_job.hub_token()), poll)
    answering = asyncio.create_task(loading.until_it_answers())
    ending = asyncio.create_task(_until_ended(watch, poll))
    try:
        done, _ = await asyncio.wait(
            {answering, ending},
            timeout=server.load_timeout,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if answering in done:
            ready = answering.result()
            say(f"server answers at {ready.base_url}")
            return ready
        if ending in done:
            ending.result()
            raise await _died(api, watch.job)
        raise NotStartedError(
            f"The server job {job.job_id} runs but did not answer within "
            f"{format_duration(server.load_timeout)}: {loading.detail}. A longer --load-timeout, "
            "or a larger flavor, may help."
        )
    finally:
        for task in (answering, ending):
            task.cancel()
        await asyncio.gather(answering, ending, return_exceptions=True)


async def check_endpoint(base_url: str, token: str | None, model: str) -> ReadyServer:
    """An endpoint that exists already: it must answer now.

    Raises:
        NotStartedError: it does not, with what it said.
    """
    async with httpx.AsyncClient(trust_env=False) as client:
        probe = await probe_all(client, base_url, token, model)
    if not probe.ok:
        raise NotStartedError(f"The endpoint {base_url} is not usable: {one_line(probe.detail)}.")
    return ReadyServer(base_url=base_url, token=token, context_length=probe.context_length)


def base_url_of(job: PaidJob, spec: RunSpec) -> str:
    """The exposed URL that the Hub gave, or the documented form of it when it gave none."""
    port = spec.server.port if spec.server else 8000
    root = job.url or f"https://{job.job_id}--{port}.hf.jobs"
    return f"{root.rstrip('/')}/v1"


async def _until_running(watch: JobWatch, api: HfApi, limit: float, poll: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit):
            while watch.job.stage != "RUNNING":
                if watch.job.ended:
                    raise await _died(api, watch.job)
                _raise_if_refused(watch)
                await asyncio.sleep(poll)
                await watch.look()
            return
    raise NotStartedError(
        f"The server job {watch.job.job_id} was not scheduled within {format_duration(limit)} "
        f"(still {watch.job.stage}); the flavor {watch.job.flavor} may be busy: try another, or a "
        "longer --schedule-timeout."
    )


async def _until_ended(watch: JobWatch, poll: float) -> None:
    while not watch.job.ended:
        await asyncio.sleep(poll)
        await watch.look()
        _raise_if_refused(watch)


def _raise_if_refused(watch: JobWatch) -> None:
    if watch.refused >= _HOPELESS_AFTER:
        raise NotStartedError(
            f"The Hub refuses to say how the server job {watch.job.job_id} is: {watch.trouble}. "
            "Check that HF_TOKEN is still valid."
        )


class _Loading:
    """Asks a running job again and again whether it serves the model yet."""

    def __init__(self, watch: JobWatch, spec: RunSpec, token: str, poll: float) -> None:
        self._watch = watch
        self._spec = spec
        self._token = token
        self._poll = poll
        self._refused = 0
        self._wrong = 0
        self.detail = "it was not asked yet"

    async def until_it_answers(self) -> ReadyServer:
        async with httpx.AsyncClient(trust_env=False) as client:
            while True:
                base_url = base_url_of(self._watch.job, self._spec)
                probe = await probe_all(client, base_url, self._token, self._spec.model.name)
                if probe.ok:
                    return ReadyServer(
                        base_url=base_url,
                        token=self._token,
                        context_length=probe.context_length,
                        job=self._watch.job,
                    )
                self._give_up_if_hopeless(probe)
                await asyncio.sleep(self._poll)

    def _give_up_if_hopeless(self, probe: Probe) -> None:
        self.detail = one_line(probe.detail)
        self._refused = self._refused + 1 if probe.refused else 0
        self._wrong = self._wrong + 1 if probe.wrong else 0
        name = self._watch.job.job_id
        if self._refused >= _HOPELESS_AFTER:
            raise NotStartedError(
                f"The server job {name} runs, but its address refuses the token: {self.detail}. "
                "The token needs read access to the job's namespace."
            )
        if self._wrong >= _HOPELESS_AFTER:
            raise NotStartedError(f"The server job {name} runs, but {self.detail}.")


async def _died(api: HfApi, job: PaidJob) -> ServerDiedError:
    logs: list[str] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOGS_SECONDS):
            logs = await asyncio.to_thread(hf_job.last_logs, api, job)
    cause = cause_of_death(job.stage, job.message, logs)
    # A server's log is written by others, and may show the token that it was given.
    redactor = Redactor.from_environment([api.token] if isinstance(api.token, str) else [])
    tail = "".join(f"\n    {one_line(line)[:300]}" for line in logs[-8:])
    return ServerDiedError(
        f"The server job {job.job_id} ended as {job.stage} before it answered: {one_line(cause)}."
        + terminal(redactor.text(f"\n  Its last log lines:{tail}" if tail else ""))
    )
