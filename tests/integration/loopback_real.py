"""The loopback Hub as a process of its own, and the real huggingface_hub client against it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from huggingface_hub import HfApi, JobInfo, constants

from tbh_action.loopback.client import LoopbackHub

FAST = {
    "server_scheduling": 0.1,
    "sandbox_scheduling": 0.05,
    "model_loading": 0.3,
    "model_thinking": 0.0,
}
MODEL = "demo/Scripted-1B"


def real_hub() -> Iterator[LoopbackHub]:
    """A fixture's body: a fast Hub that this process's own client uses as well."""
    before = constants.ENDPOINT
    with LoopbackHub(settings=FAST) as hub:
        constants.ENDPOINT = hub.url
        yield hub
    constants.ENDPOINT = before


def api(hub: LoopbackHub, token: str | None = None) -> HfApi:
    return HfApi(endpoint=hub.url, token=token or hub.token)


def run_server(hub: LoopbackHub, **more: Any) -> JobInfo:
    """A model server job."""
    arguments: dict[str, Any] = {
        "image": "ghcr.io/tbh-demo/model-server:1",
        "command": ["demo-model-server", "--model", MODEL, "--port", "30000"],
        "flavor": "t4-small",
        "timeout": 600,
        "expose": [30000],
        "namespace": "demo",
    }
    return api(hub).run_job(**arguments | more)


def client_of(hub: LoopbackHub, job: JobInfo) -> httpx.Client:
    """An HTTP client for a job's exposed port."""
    assert job.status.expose_urls
    headers = {"Authorization": f"Bearer {hub.token}"}
    base_url = job.status.expose_urls[0]
    return httpx.Client(base_url=base_url, headers=headers, trust_env=False, timeout=20)


def until[T](look: Callable[[], T], timeout: float = 15.0) -> T:
    """Waits for something true."""
    deadline = time.monotonic() + timeout
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s")
        time.sleep(0.02)


def command_lines() -> dict[int, str]:
    """Every process of this machine with its command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            found[int(folder.name)] = text.strip()
    return found


def processes_with(text: str) -> list[int]:
    """The processes whose command line holds `text`."""
    return [pid for pid, line in command_lines().items() if text in line]
