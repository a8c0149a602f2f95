"""Specs and tasks for tests: small, whole, and changed where a test wants it."""

from __future__ import annotations

from typing import Any

from tbh_action.harbor.tasks import TaskInfo, TaskList
from tbh_action.resolve import resolve
from tbh_action.spec import RunSpec

SEED = "qwen3.8-27b-fp8"


def seed(**options: Any) -> RunSpec:
    """The seed's full run, with options of `tbh run`."""
    return resolve({"recipe": SEED} | options)


def task(name: str = "demo/t", **changes: Any) -> TaskInfo:
    """A task that runs in a small sandbox."""
    values: dict[str, Any] = {
        "name": name,
        "directory": f"/tasks/{name.rpartition('/')[2]}",
        "docker_image": "image:1",
        "cpus": 1.0,
        "memory_mb": 512,
        "agent_timeout": 900.0,
        "verifier_timeout": 60.0,
        "digest": "sha256:" + "0" * 64,
    }
    return TaskInfo(**(values | changes))


def tasks(*names: str) -> TaskList:
    return TaskList(tasks=tuple(task(name) for name in names))
