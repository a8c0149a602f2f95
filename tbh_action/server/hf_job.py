"""Hugging Face Jobs, as far as a run needs them: one thin edge around the real client.

Every call here may start or stop something paid. Creating a job is not idempotent, and an error
may hide a job that was created all the same: each creation carries a nonce label, and a failed one
is looked up by it before it is repeated.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tbh_action.errors import NotStartedError
from tbh_action.labels import (
    KIND_LABEL,
    MODEL_LABEL,
    NONCE_LABEL,
    PROJECT,
    PROJECT_LABEL,
    RUN_LABEL,
    label_value,
)
from tbh_action.server.hub_errors import explain, hub_errors, retry_after, status_of
from tbh_action.server.launch import launch_command, mount_path

if TYPE_CHECKING:
    from huggingface_hub import HfApi, JobInfo

    from tbh_action.spec import RunSpec

ENDED_STAGES: Final = frozenset({"COMPLETED", "CANCELED", "ERROR", "DELETED"})
_CREATE_TRIES: Final = 3
# The client itself tries a list six times, over half a minute.
_LOOK_UP_TRIES: Final = 2
_REFUSALS: Final = frozenset({400, 401, 402, 403, 404, 422})
# What reading an answer raises that is no document of a job (a body that was cut, a proxy's page).
_NO_DOCUMENT: Final = (ValueError, KeyError, TypeError)


@dataclass(frozen=True, kw_only=True, slots=True)
class PaidJob:
    """One paid job of a run as last seen. `url` is its exposed address, `seconds` its running time.
    A `borrowed` one belongs to another run, and is neither stopped nor replaced by this one.

    Written to `state.json` before the creation call (with an empty id), so that a crash between
    the call and its answer leaves the nonce to look for.
    """

    kind: str
    nonce: str
    flavor: str
    job_id: str = ""
    namespace: str | None = None
    url: str | None = None
    stage: str = "SCHEDULING"
    message: str | None = None
    created_at: str | None = None
    started_at: str | None = None
    timeout: float | None = None
    seconds: float = 0.0
    trial: str | None = None
    borrowed: bool = False

    @property
    def ended(self) -> bool:
        return self.stage in ENDED_STAGES

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def hub_api(token: str | None = None) -> HfApi:
    """The real client, with time limits: by itself it would wait for a silent Hub forever. It reads
    HF_ENDPOINT itself."""
    from huggingface_hub import HfApi

    from tbh_action.server.hub_client import limit_waiting

    limit_waiting()
    return HfApi(token=token)


def new_server(spec: RunSpec) -> PaidJob:
    """The record of a server job that is about to be created."""
    assert spec.server is not None
    return PaidJob(
        kind="server",
        nonce=secrets.token_hex(8),
        flavor=spec.server.flavor,
        namespace=spec.namespace,
        timeout=spec.server.timeout,
    )


def creation_arguments(spec: RunSpec, job: PaidJob, run_id: str) -> dict[str, Any]:
    """Exactly what `HfApi.run_job` is called with, without the secret's value."""
    server = spec.server
    assert server is not None
    arguments: dict[str, Any] = {
        "image": server.image,
        "command": launch_command(server, spec.model),
        "env": dict(server.env),
        "flavor": server.flavor,
        "timeout": int(server.timeout),
        "labels": {
            PROJECT_LABEL: PROJECT,
            RUN_LABEL: label_value(run_id),
            MODEL_LABEL: label_value(spec.model.name),
            NONCE_LABEL: job.nonce,
        },
        "expose": [server.port],
        "namespace": spec.namespace,
    }
    if server.mount_model:
        from huggingface_hub import Volume

        arguments["volumes"] = [
            Volume(
                type="model",
                source=spec.model.name,
                mount_path=mount_path(spec.model.name),
                revision=spec.model.revision,
                read_only=True,
            )
        ]
    return arguments


class RefusedError(NotStartedError):
    """The Hub refused to start a job, for a reason that trying again does not cure."""


def create_server(
    api: HfApi,
    spec: RunSpec,
    job: PaidJob,
    run_id: str,
    *,
    sleep: Callable[[float], object] = time.sleep,
    wanted: Callable[[], bool] = lambda: True,
) -> PaidJob:
    """Creates the job that `job` announces, once, whatever the Hub answers.

    A creation is repeated only after the Hub said that no job carries the nonce. `wanted` is asked
    before each try: a run that is being stopped must not start anything.

    Raises:
        RefusedError: the Hub refused (401, 402, 403, 404, 422).
        NotStartedError: the Hub kept failing, or it can't be known whether the job exists.
    """
    arguments = creation_arguments(spec, job, run_id)
    secret = {"HF_TOKEN": api.token or hub_token()}
    return create(api, job, {**arguments, "secrets": secret}, sleep=sleep, wanted=wanted)


def create(
    api: HfApi,
    job: PaidJob,
    arguments: dict[str, Any],
    *,
    sleep: Callable[[float], object] = time.sleep,
    wanted: Callable[[], bool] = lambda: True,
) -> PaidJob:
    """`run_job(**arguments)` for the job that `job` announces (its nonce is among the labels); see
    `create_server`."""
    last = ""
    for attempt in range(_CREATE_TRIES):
        if not wanted():
            raise NotStartedError(f"The run was stopped before its {job.kind} job was created.")
        try:
            return seen(job, api.run_job(**arguments))
        except hub_errors(*_NO_DOCUMENT) as error:
            last = explain(error)
            if status_of(error) in _REFUSALS:
                raise RefusedError(
                    f"The Hub refused to start the {job.kind} job: {last}"
                ) from error
            sleep(retry_after(error) or 2.0 * (attempt + 1))
        found = _look_up(api, job, sleep)
        if found is not None:
            return found
    raise NotStartedError(
        f"The Hub did not start the {job.kind} job in {_CREATE_TRIES} tries: {last}. "
        "Try again later; `tbh cleanup` finds what may have been left."
    )


def _look_up(api: HfApi, job: PaidJob, sleep: Callable[[float], object]) -> PaidJob | None:
    """The job that a failed creation may have made; None when the Hub says that there is none.

    Raises:
        NotStartedError: the Hub does not say. To create once more could be to pay twice.
    """
    last = ""
    for attempt in range(_LOOK_UP_TRIES):
        try:
            return find_by_nonce(api, job)
        except hub_errors(*_NO_DOCUMENT) as error:
            last = explain(error)
            sleep(retry_after(error) or 2.0 * (attempt + 1))
    raise NotStartedError(
        f"The Hub failed while it created the {job.kind} job and can't be asked about it: {last}. "
        "It may be running: `tbh cleanup` finds it once the Hub answers."
    )


def find_by_nonce(api: HfApi, job: PaidJob) -> PaidJob | None:
    """The job that carries the nonce of `job`, a living one before one that has ended; None when
    there is none (raises the client's errors)."""
    found = [
        seen(job, info)
        for info in api.list_jobs(labels={NONCE_LABEL: job.nonce}, namespace=job.namespace)
    ]
    return min(found, key=lambda candidate: candidate.ended, default=None)


def inspect(api: HfApi, job: PaidJob) -> PaidJob:
    """The job as the Hub sees it now (raises the client's errors)."""
    return seen(job, api.inspect_job(job_id=job.job_id, namespace=job.namespace))


def cancel(api: HfApi, job: PaidJob) -> bool:
    """One cancel call. True when the job is, or surely will be, no longer running; False when that
    is not known, so that the call must be made again."""
    try:
        if not job.job_id:
            found = find_by_nonce(api, job) if job.nonce else None
            if found is None or found.ended:
                return True
            job = found
        api.cancel_job(job_id=job.job_id, namespace=job.namespace)
    except hub_errors(*_NO_DOCUMENT) as error:
        status = status_of(error)
        if status == 404:
            return True
        # A job that has just ended by itself may be refused too.
        return status is not None and status < 500 and _has_ended(api, job)
    return True


def _has_ended(api: HfApi, job: PaidJob) -> bool:
    try:
        return inspect(api, job).ended
    except hub_errors(*_NO_DOCUMENT):
        return False


def jobs_of_run(api: HfApi, run_id: str, namespace: str | None) -> list[PaidJob]:
    """Every job that carries the run's label: servers and sandboxes, ended ones included."""
    jobs = []
    for info in api.list_jobs(labels={RUN_LABEL: label_value(run_id)}, namespace=namespace):
        jobs.append(from_info(info, namespace))
    return jobs


def from_info(info: JobInfo, namespace: str | None) -> PaidJob:
    """A record of a job that was found on the Hub."""
    labels = info.labels or {}
    kind = "sandbox" if "hf-sandbox" in labels else labels.get(KIND_LABEL, "server")
    blank = PaidJob(
        kind=kind,
        nonce=labels.get(NONCE_LABEL, ""),
        flavor=str(info.flavor or "unknown"),
        namespace=namespace or info.owner.name,
        trial=labels.get("tbh-trial"),
    )
    return seen(blank, info)


def seen(job: PaidJob, info: JobInfo) -> PaidJob:
    """`job` with what the Hub's document says."""
    urls = info.status.expose_urls or []
    durations = info.durations
    return replace(
        job,
        job_id=info.id,
        namespace=job.namespace or info.owner.name,
        url=urls[0] if urls else job.url,
        stage=str(getattr(info.status.stage, "value", info.status.stage)),
        message=info.status.message,
        created_at=_iso(info.created_at) or job.created_at,
        started_at=_iso(info.started_at) or job.started_at,
        seconds=float((durations.running_secs if durations else None) or job.seconds),
    )


def last_logs(api: HfApi, job: PaidJob, lines: int = 40) -> list[str]:
    """The last log lines, as far as the Hub gives them: logs are best effort."""
    try:
        found: Iterable[str] = api.fetch_job_logs(
            job_id=job.job_id, namespace=job.namespace, tail=lines
        )
        return [str(line).rstrip("\n") for line in found][-lines:]
    except Exception:  # noqa: BLE001 (the stream may end in any of several clients' errors)
        return []


def _iso(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def hub_token() -> str:
    """The Hub's token on this machine.

    Raises:
        NotStartedError: there is none.
    """
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        raise NotStartedError("No Hugging Face token: set HF_TOKEN, or run `hf auth login`.")
    return token
