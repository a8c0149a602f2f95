"""The controller as a job on the Hub: how it is started, found and stopped."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tbh_action.controller.state import belongs_to
from tbh_action.errors import NotStartedError
from tbh_action.labels import (
    KIND_LABEL,
    NONCE_LABEL,
    PROJECT,
    PROJECT_LABEL,
    RUN_LABEL,
    label_value,
)
from tbh_action.server import hf_job
from tbh_action.server.hf_job import PaidJob
from tbh_action.server.hub_errors import explain, hub_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.detached.submission import Submission

KIND: Final = "controller"
FLAVOR: Final = "cpu-basic"
LIFETIME: Final = 3 * 24 * 3600.0
# With git and a compiler; git-lfs is what it lacks.
IMAGE: Final = "python:3.12-bookworm"
# The word before the arguments, by which a reader (and the loopback Hub) finds them.
MARK: Final = "tbh-controller"
_SCRIPT: Final = """\
set -e
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends git-lfs >/dev/null
python -m pip install -q --disable-pip-version-check --root-user-action=ignore "$1"
shift
mkdir -p /tbh
cd /tbh
exec python -m tbh_action.detached.controller "$@"
"""
_CANCEL_ROUNDS: Final = 4
_CANCEL_PAUSE: Final = 1.0
_END_PATIENCE: Final = 60.0


def new_controller(namespace: str, flavor: str, lifetime: float) -> PaidJob:
    """The record of a controller job that is about to be created."""
    return PaidJob(
        kind=KIND,
        nonce=secrets.token_hex(8),
        flavor=flavor,
        namespace=namespace,
        timeout=lifetime,
    )


def creation_arguments(asked: Submission, job: PaidJob, *, sync_every: float) -> dict[str, Any]:
    """What `run_job` is called with, without the secrets' values."""
    assert job.timeout is not None
    return {
        "image": IMAGE,
        "command": [
            *("bash", "-c", _SCRIPT, MARK, asked.package),
            *(asked.namespace, asked.name),
            *("--sync-every", f"{sync_every:g}s", "--lifetime", f"{job.timeout:.0f}s"),
        ],
        "env": {"PYTHONUNBUFFERED": "1"},
        "flavor": job.flavor,
        "timeout": int(job.timeout),
        "labels": {
            PROJECT_LABEL: PROJECT,
            RUN_LABEL: label_value(asked.name),
            KIND_LABEL: KIND,
            NONCE_LABEL: job.nonce,
        },
        "namespace": asked.namespace,
    }


def start(api: HfApi, asked: Submission, job: PaidJob, *, sync_every: float) -> PaidJob:
    """Creates the controller's job, once. When another submit of the same run was a moment earlier,
    ours is cancelled and that one is returned.

    Raises:
        NotStartedError: see `hf_job.create_server`.
    """
    passed = {"HF_TOKEN": api.token or hf_job.hub_token()}
    if asked.spec.get("endpoint") and os.environ.get("OPENAI_API_KEY"):
        passed["OPENAI_API_KEY"] = os.environ["OPENAI_API_KEY"]
    arguments = creation_arguments(asked, job, sync_every=sync_every)
    made = hf_job.create(api, job, {**arguments, "secrets": passed})
    alive = [each for each in controllers(api, asked.name, asked.namespace) if not each.ended]
    first = min([*alive, made], key=lambda each: (each.created_at or "", each.job_id))
    if first.job_id != made.job_id:
        hf_job.cancel(api, made)
    return first


def controllers(api: HfApi, name: str, namespace: str) -> list[PaidJob]:
    """The controllers of a run, ended ones included, newest first.

    Raises:
        NotStartedError: the Hub can't be asked.
    """
    labels = {PROJECT_LABEL: PROJECT, RUN_LABEL: label_value(name), KIND_LABEL: KIND}
    found = _listed(api, labels, namespace)
    return sorted(found, key=lambda job: (job.created_at or "", job.job_id), reverse=True)


def stop_all(
    api: HfApi,
    name: str,
    namespace: str,
    *,
    stopped: Callable[[PaidJob], None],
    sleep: Callable[[float], object] = time.sleep,
) -> list[PaidJob]:
    """Cancels the controllers of a run, then whatever carries the run's label. Returns what may
    still be running; `stopped` is told each job that was cancelled.

    A controller that is told to end stops its servers itself, and may start one a moment before it
    hears of it: so the rest is looked for once it is gone, and again until nothing is found.
    """
    left: dict[str, PaidJob] = {}
    for job in controllers(api, name, namespace):
        if not job.ended:
            left |= _cancel(api, job, stopped)
            _wait_for_end(api, job, sleep)
    for _ in range(_CANCEL_ROUNDS):
        alive = [job for job in _of_run(api, name, namespace) if not job.ended]
        if not alive:
            return []
        left = {}
        for job in alive:
            left |= _cancel(api, job, stopped)
        sleep(_CANCEL_PAUSE)
    alive = [job for job in _of_run(api, name, namespace) if not job.ended]
    return [job for job in alive if job.job_id in left]


def _cancel(api: HfApi, job: PaidJob, stopped: Callable[[PaidJob], None]) -> dict[str, PaidJob]:
    if not hf_job.cancel(api, job):
        return {job.job_id: job}
    stopped(job)
    return {}


def _wait_for_end(api: HfApi, job: PaidJob, sleep: Callable[[float], object]) -> None:
    deadline = time.monotonic() + _END_PATIENCE
    while not job.ended and time.monotonic() < deadline:
        with contextlib.suppress(*hub_errors(ValueError, KeyError, TypeError)):
            job = hf_job.inspect(api, job)
        sleep(0.5)


def _of_run(api: HfApi, name: str, namespace: str) -> list[PaidJob]:
    """Servers, sandboxes and controllers of every run with this name."""
    return _listed(
        api, {PROJECT_LABEL: PROJECT}, namespace, wanted=lambda label: belongs_to(label, name)
    )


def _listed(
    api: HfApi,
    labels: dict[str, str],
    namespace: str,
    wanted: Callable[[str], bool] = lambda _: True,
) -> list[PaidJob]:
    try:
        infos = list(api.list_jobs(labels=labels, namespace=namespace))
    except hub_errors(ValueError, KeyError, TypeError) as error:
        raise NotStartedError(
            f"Cannot list the jobs of {namespace}: {explain(error)}. Check HF_TOKEN and the "
            "network, and --namespace."
        ) from error
    return [
        hf_job.from_info(info, namespace)
        for info in infos
        if wanted((info.labels or {}).get(RUN_LABEL, ""))
    ]
