"""From nothing to a model server that answers, or one line that says why not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx

from tbh_action.durations import format_duration
from tbh_action.errors import NotStartedError
from tbh_action.server import hf_job
from tbh_action.server.causes import cause_of_death
from tbh_action.server.health import Probe, probe_all

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob
    from tbh_action.spec import RunSpec

_INSPECT_EVERY: Final = 5.0
_PROBE_EVERY: Final = 5.0
# A refused token is not cured by waiting, but a fresh job's route may need a moment.
_REFUSALS: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyServer:
    """A server that has answered a conversation. `job` is None for an endpoint that is not ours."""

    base_url: str
    token: str | None
    context_length: int | None = None
    job: PaidJob | None = None


class ServerDiedError(NotStartedError):
    """The server's job ended before it was healthy."""


async def bring_up(
    api: HfApi,
    spec: RunSpec,
    job: PaidJob,
    run_id: str,
    *,
    record: Callable[[PaidJob], None],
    say: Callable[[str], None],
    poll: float = _INSPECT_EVERY,
) -> ReadyServer:
    """Creates the announced job, waits until it is scheduled, loaded and answers.

    `record` is called before the creation and at each change, so that what is paid is on disk
    before it is waited for.

    Raises:
        NotStartedError: refused, too late, or dead; the job is not left running by us (the caller
            cancels what `record` was told).
    """
    server = spec.server
    assert server is not None
    record(job)
    job = await asyncio.to_thread(hf_job.create_server, api, spec, job, run_id)
    record(job)
    say(
        f"server job {job.job_id} created on {server.flavor}, timeout {format_duration(server.timeout)}"
    )
    job = await _until_running(api, job, server.schedule_timeout, record, poll)
    say(f"server job {job.job_id} is running; waiting for the model to load")
    ready = await attach(
        api,
        job,
        spec,
        deadline=time.monotonic() + server.load_timeout,
        limit=server.load_timeout,
        record=record,
        poll=poll,
    )
    say(f"server answers at {ready.base_url}")
    return ready


async def _until_running(
    api: HfApi, job: PaidJob, limit: float, record: Callable[[PaidJob], None], poll: float
) -> PaidJob:
    deadline = time.monotonic() + limit
    while job.stage != "RUNNING":
        if job.ended:
            raise await _died(api, job)
        if time.monotonic() > deadline:
            raise NotStartedError(
                f"The server job {job.job_id} was not scheduled within {format_duration(limit)} "
                f"(still {job.stage}); the flavor {job.flavor} may be busy: try another, or a "
                "longer --schedule-timeout."
            )
        await asyncio.sleep(poll)
        job = await _look(api, job, record)
    return job


async def attach(
    api: HfApi,
    job: PaidJob,
    spec: RunSpec,
    *,
    deadline: float,
    limit: float,
    record: Callable[[PaidJob], None],
    poll: float = _PROBE_EVERY,
) -> ReadyServer:
    """Waits until the running job answers. Used for a new job and for one left by an earlier leg."""
    base_url = base_url_of(job, spec)
    token = api.token or hf_job._token()
    refused = 0
    async with httpx.AsyncClient(trust_env=False) as client:
        while True:
            probe = await probe_all(client, base_url, str(token), spec.model.name)
            if probe.ok:
                return ReadyServer(
                    base_url=base_url,
                    token=str(token),
                    context_length=probe.context_length,
                    job=job,
                )
            refused = refused + 1 if probe.refused else 0
            _give_up_if_hopeless(job, probe, refused)
            job = await _look(api, job, record)
            if job.ended:
                raise await _died(api, job)
            if time.monotonic() > deadline:
                raise NotStartedError(
                    f"The server job {job.job_id} runs but did not answer within "
                    f"{format_duration(limit)}: {probe.detail}. A longer --load-timeout, or a "
                    "larger flavor, may help."
                )
            await asyncio.sleep(poll)


def base_url_of(job: PaidJob, spec: RunSpec) -> str:
    """The exposed URL that the Hub gave, or the documented form of it when it gave none."""
    port = spec.server.port if spec.server else 8000
    root = job.url or f"https://{job.job_id}--{port}.hf.jobs"
    return f"{root.rstrip('/')}/v1"


async def check_endpoint(base_url: str, token: str | None, model: str) -> ReadyServer:
    """An endpoint that exists already: it must answer now.

    Raises:
        NotStartedError: it does not, with what it said.
    """
    async with httpx.AsyncClient(trust_env=False) as client:
        probe = await probe_all(client, base_url, token, model)
    if not probe.ok:
        raise NotStartedError(f"The endpoint {base_url} is not usable: {probe.detail}.")
    return ReadyServer(base_url=base_url, token=token, context_length=probe.context_length)


def _give_up_if_hopeless(job: PaidJob, probe: Probe, refused: int) -> None:
    if refused >= _REFUSALS:
        raise NotStartedError(
            f"The server job {job.job_id} runs, but its address refuses the token: {probe.detail}. "
            "The token needs read access to the job's namespace."
        )
    if "the server serves" in probe.detail:
        raise NotStartedError(f"The server job {job.job_id} runs, but {probe.detail}.")


async def _look(api: HfApi, job: PaidJob, record: Callable[[PaidJob], None]) -> PaidJob:
    """The job's newest state; a Hub that does not answer now changes nothing."""
    try:
        newer = await asyncio.to_thread(hf_job.inspect, api, job)
    except OSError:
        return job
    if newer != job:
        record(newer)
    return newer


async def _died(api: HfApi, job: PaidJob) -> ServerDiedError:
    logs = await asyncio.to_thread(hf_job.last_logs, api, job)
    cause = cause_of_death(job.stage, job.message, logs)
    tail = "".join(f"\n    {line}" for line in logs[-8:])
    return ServerDiedError(
        f"The server job {job.job_id} ended as {job.stage} before it answered: {cause}."
        + (f"\n  Its last log lines:{tail}" if tail else "")
    )
