"""What a run would do, as commands that a person can read and copy. Starts nothing, asks nobody."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tbh_action.durations import format_duration
from tbh_action.harbor import command
from tbh_action.rundir import RunDir
from tbh_action.scoring.failures import SEED_FILTER_TYPES
from tbh_action.server import hf_job
from tbh_action.spec import RunSpec


def describe(spec: RunSpec, root: Path) -> str:
    """The Hub call, the Harbor job and both Harbor commands. Secrets stand as where they go."""
    run_dir = RunDir(root.expanduser().resolve())
    parts = [f"# {spec.model.name} on {spec.benchmark.name}, fingerprint {spec.fingerprint()[:12]}"]
    base_url = spec.endpoint or "https://<job_id>--PORT.hf.jobs/v1"
    if spec.server is not None:
        base_url = f"https://<job_id>--{spec.server.port}.hf.jobs/v1"
        parts += ["", "# 1. The model server", server_command(spec, run_dir.name)]
    config = command.job_config(spec, run_dir)
    policy = config["override_error_policy"]
    config["override_error_policy"] = f"({len(policy)} exception types, as tbh classifies them)"
    resume = ["harbor", "job", "resume", "-p", str(run_dir.harbor_job)]
    for name in SEED_FILTER_TYPES:
        resume += ["--filter-error-type", name]
    parts += [
        "",
        f"# 2. The Harbor job, {run_dir.harbor_config}",
        json.dumps(config, indent=1, ensure_ascii=False),
        "",
        "# 3. The first pass",
        command.by_hand(command.run_argv(run_dir), api_base=base_url),
        "",
        f"# 4. Up to {spec.max_passes - 1} further passes over what infrastructure broke",
        "#    (tbh moves those trials into its archive first; by hand, Harbor deletes them)",
        command.by_hand(resume, api_base=base_url),
    ]
    return "\n".join(parts)


def server_command(spec: RunSpec, run_id: str) -> str:
    """The `hf jobs run` line that starts the same server by hand."""
    server = spec.server
    assert server is not None
    job = hf_job.new_server(spec)
    arguments = hf_job.creation_arguments(spec, job, run_id)
    words = ["hf", "jobs", "run", "--flavor", server.flavor, "--expose", str(server.port)]
    words += ["--secrets", "HF_TOKEN", "--timeout", _timeout(server.timeout)]
    if spec.namespace:
        words += ["--namespace", spec.namespace]
    for key, value in arguments["labels"].items():
        if value != job.nonce:
            words += ["--label", f"{key}={value}"]
    for key, value in server.env.items():
        words += ["--env", f"{key}={value}"]
    for volume in arguments.get("volumes", ()):
        words += ["--volume", f"hf://models/{volume.source}:{volume.mount_path}:ro"]
    return shlex.join([*words, "-d", server.image, *arguments["command"]])


def _timeout(seconds: float) -> str:
    text = format_duration(seconds)
    return text if " " not in text else f"{int(seconds)}s"
