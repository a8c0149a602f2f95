"""All checks that fit one spec, in the order in which a run would stumble."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tbh_action import doctor
from tbh_action.doctor.check import Check

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from tbh_action.spec import RunSpec


def examine(
    api: HfApi, spec: RunSpec, *, run_dir: Path, time_budget: float | None = None
) -> Iterator[Check]:
    """Yields each check as it is done (the dataset's take seconds)."""
    yield from check_machine(spec, run_dir)
    yield from check_hub(api, spec)
    dataset = doctor.check_dataset(spec.benchmark)
    yield dataset
    if spec.benchmark.repo and dataset.status != "fail":
        yield doctor.check_lfs_content(spec.benchmark.repo, spec.benchmark.revision)
    yield doctor.check_runner(os.environ, time_budget)
    yield doctor.check_comment(os.environ)
    yield doctor.check_tmux()
    yield doctor.check_isolation()


def check_machine(spec: RunSpec, run_dir: Path) -> Iterator[Check]:
    """What this machine must have for the run."""
    yield doctor.check_harbor()
    if spec.benchmark.repo:
        yield doctor.check_git_lfs()
    yield doctor.check_disk(run_dir)
    yield doctor.check_loopback()


def check_hub(api: HfApi, spec: RunSpec) -> Iterator[Check]:
    """What the Hub must grant. After a refused token the rest would only repeat it."""
    on_the_hub = spec.environment.type == "hf-sandbox"
    if spec.server is None and not on_the_hub:
        return
    token, whoami = doctor.check_token(api)
    yield token
    if token.status == "fail":
        return
    if whoami:
        yield doctor.check_scopes(whoami, spec.namespace)
        yield doctor.check_namespace(whoami, spec.namespace)
        yield doctor.check_credit(whoami, spec.namespace)
    hardware_check, hardware = doctor.check_hardware(api)
    if not hardware:
        yield hardware_check
    if spec.server:
        if hardware:
            yield doctor.check_flavor(hardware, spec.server.flavor, "server")
        yield doctor.check_image(spec.server.image)
        if spec.model.name in spec.server.command or spec.server.mount_model:
            # The server takes it from the Hub; a name of the server's own cannot be looked up.
            yield doctor.check_model(api, spec.model.name, spec.model.revision)
    if on_the_hub and hardware:
        yield doctor.check_flavor(hardware, spec.environment.flavor, "sandbox")
    yield doctor.check_clock(api.endpoint)
