"""A server job of another run, used as it is: found on the Hub, and seen to serve what is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tbh_action.errors import NotStartedError
from tbh_action.escape import one_line
from tbh_action.server import hf_job
from tbh_action.server.hub_errors import explain, hub_errors
from tbh_action.server.launch import launch_command

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.server.hf_job import PaidJob
    from tbh_action.spec import RunSpec


def borrow(api: HfApi, spec: RunSpec, job_id: str) -> PaidJob:
    """The server job `job_id` (`tbh serve` started it), which serves exactly what `spec` asks.

    Raises:
        NotStartedError: the Hub does not know it, it has ended, or it serves something else.
    """
    assert spec.server is not None
    try:
        info = api.inspect_job(job_id=job_id, namespace=spec.namespace)
        job = replace(hf_job.from_info(info, spec.namespace), borrowed=True)
    except hub_errors(ValueError, KeyError, TypeError) as error:
        raise NotStartedError(
            f"--server-job {one_line(job_id)}: the Hub cannot be asked about it: {explain(error)}"
        ) from error
    if job.ended:
        raise NotStartedError(
            f"--server-job {job.job_id}: it has ended as {job.stage}; `tbh serve` starts another."
        )
    pairs = {
        "image": (info.docker_image, spec.server.image),
        "command": (list(info.command or []), launch_command(spec.server, spec.model)),
        "flavor": (str(info.flavor), spec.server.flavor),
    }
    different = [name for name, (theirs, ours) in pairs.items() if theirs != ours]
    if different:
        raise NotStartedError(
            f"--server-job {job.job_id}: it serves something else than this run asks for "
            f"(different: {', '.join(different)}); give `tbh serve` the same options."
        )
    return job
