"""The loopback Hub in a thread of the test, with fast servers; the real client talks to it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from huggingface_hub import HfApi

from tbh_action.loopback.hub import listen, serve
from tbh_action.loopback.settings import Settings
from tbh_action.server.hf_job import hub_api
from tbh_action.spec import RunSpec, validate_spec

TOKEN = "hf_loopback-token-for-tests"
MODEL = "demo/model"


@dataclass(kw_only=True)
class HubStand:
    url: str
    admin: httpx.Client

    def api(self, token: str = TOKEN) -> HfApi:
        """The real client, with the product's own time limits."""
        made = hub_api(token)
        made.endpoint = self.url
        return made

    def rules(self, *rules: dict[str, Any]) -> None:
        """Replaces the fault rules."""
        response = self.admin.post("rules", json=list(rules))
        assert response.status_code == 200, response.text

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.admin.get("jobs").json()
        return found

    def calls(self, name: str) -> list[dict[str, Any]]:
        return [call for call in self.admin.get("log").json() if call.get("call") == name]

    def kill(self, job_id: str) -> None:
        assert self.admin.post(f"kill/{job_id}").status_code == 200

    def alive(self) -> list[str]:
        """Ids of the jobs that still cost money."""
        ended = ("COMPLETED", "CANCELED", "ERROR", "DELETED")
        return [job["id"] for job in self.jobs() if job["status"]["stage"] not in ended]


@contextlib.contextmanager
def hub_stand(**settings: Any) -> Iterator[HubStand]:
    given: dict[str, Any] = {
        "server_scheduling": 0.1,
        "model_loading": 0.2,
        "model_thinking": 0.01,
        **settings,
    }
    listener = listen()
    up, down = threading.Event(), threading.Event()

    async def until() -> None:
        while not down.is_set():  # noqa: ASYNC110 (the event belongs to another thread)
            await asyncio.sleep(0.02)

    def run(folder: Path) -> None:
        asyncio.run(
            serve(
                Settings(token=TOKEN, admin_key="admin", **given),
                folder,
                listener,
                faults=[],
                ready=lambda _: up.set(),
                until=until(),
            )
        )

    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="hub-") as folder:
        thread = threading.Thread(target=run, args=(Path(folder),), daemon=True)
        thread.start()
        assert up.wait(10)
        headers = {"X-Admin-Key": "admin"}
        with httpx.Client(base_url=f"{url}/_admin/", headers=headers, trust_env=False) as admin:
            try:
                yield HubStand(url=url, admin=admin)
            finally:
                down.set()
                thread.join(20)


def spec(**server: Any) -> RunSpec:
    """A run with one small server."""
    given = {
        "image": "demo/server:1",
        "flavor": "t4-small",
        "port": 8000,
        "command": ["demo-model-server", "--model", MODEL],
        "timeout": 3600,
        "schedule_timeout": 10,
        "load_timeout": 10,
        **server,
    }
    return validate_spec(
        {
            "model": {"name": MODEL},
            "server": given,
            "benchmark": {"name": "demo", "path": "/tasks"},
            "namespace": "demo",
        }
    )


def wait_for(what: Callable[[], Any], seconds: float = 10) -> Any:
    """The first true value of `what`."""
    deadline = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return value
