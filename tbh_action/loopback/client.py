"""A loopback Hub for the length of a `with` block.

with LoopbackHub(faults=demo_faults()) as hub:
    subprocess.run([...], env={**os.environ, **hub.environment()})
    assert not hub.alive()
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import httpx

from tbh_action.errors import NotStartedError

_START_PATIENCE: Final = 60.0
_STOP_PATIENCE: Final = 15.0


class LoopbackHub:
    """Starts `python -m tbh_action.loopback` as a process of its own, and ends it with all its
    jobs. Should this process die first, the Hub notices (its standard input ends) and follows.

    `speed` divides all waiting times; `settings` may hold any of `server_scheduling`,
    `sandbox_scheduling`, `model_loading`, `model_thinking` (seconds).
    """

    def __init__(
        self,
        *,
        faults: Sequence[dict[str, Any]] = (),
        speed: float = 1.0,
        seed: int = 0,
        settings: dict[str, float] | None = None,
    ) -> None:
        self._faults = list(faults)
        self._arguments = ["--speed", str(speed), "--seed", str(seed)]
        for key, value in (settings or {}).items():
            self._arguments += ["--setting", f"{key}={value}"]
        self._process: subprocess.Popen[str] | None = None
        self._said: IO[str] | None = None
        self._known: dict[str, Any] = {}
        self._admin: httpx.Client | None = None

    # ------------------------------------------------------------ life

    def start(self) -> Self:
        """Starts the Hub and waits until it answers.

        Raises:
            NotStartedError: it did not; the message holds its last words.
        """
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (kept open)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tbh_action.loopback", "--child", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(_START_PATIENCE)
            self._process = None
            self._said.seek(0)
            words = self._said.read().strip().splitlines() or ["no word"]
            raise NotStartedError(f"The loopback Hub did not start: {words[-1]}")
        self._known = json.loads(line)
        self._admin = httpx.Client(
            base_url=f"{self.url}/_admin/",
            headers={"X-Admin-Key": self._known["admin_key"]},
            timeout=30,
            trust_env=False,
        )
        self.set_faults(self._faults)
        return self

    def stop(self) -> None:
        """Ends the Hub, its jobs and their processes."""
        if self._admin is not None:
            self._admin.close()
        process = self._process
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            process.wait(_STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)  # left behind by a Hub that was killed
        if self._said is not None:
            self._said.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ for clients

    @property
    def url(self) -> str:
        """The Hub's address, without a slash at the end."""
        return str(self._known["url"])

    @property
    def token(self) -> str:
        """The one valid token."""
        return str(self._known["token"])

    @property
    def pid(self) -> int:
        """The Hub's process."""
        assert self._process is not None
        return self._process.pid

    def environment(self) -> dict[str, str]:
        """What to add to a process's environment so that the real clients use this Hub."""
        return dict(self._known["environment"])

    @property
    def folder(self) -> Path:
        """The Hub's own folder (git repositories in `git/`); gone when it stops."""
        return Path(self.environment()["HF_HOME"]).parent

    # ------------------------------------------------------------ behind the scenes

    def set_faults(self, rules: Sequence[dict[str, Any]]) -> None:
        """Replaces all fault rules (`faults.py` has the syntax); counters start anew."""
        self._ask("POST", "rules", list(rules))

    def add_faults(self, rules: Sequence[dict[str, Any]]) -> None:
        """Adds fault rules behind those in force."""
        self._ask("POST", "rules", {"add": list(rules)})

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs, oldest first: the Jobs API's documents and `kind`, `task`, `attempt`, `usd`,
        `seconds`, `logs`."""
        jobs: list[dict[str, Any]] = self._ask("GET", "jobs")
        return jobs

    def alive(self) -> list[dict[str, Any]]:
        """The jobs that are still scheduling or running."""
        ended = ("COMPLETED", "CANCELED", "ERROR", "DELETED")
        return [job for job in self.jobs() if job["status"]["stage"] not in ended]

    def calls(self, name: str | None = None, *, since: int = 0) -> list[dict[str, Any]]:
        """Every call so far, in order of arrival: `number`, `at` (Unix time), `method`, `path`,
        `call`, `job`, `task`, `status` (0: cut), `seconds`, `fault`. `since` is a number."""
        calls: list[dict[str, Any]] = self._ask("GET", f"log?since={since}")
        return [call for call in calls if name is None or call.get("call") == name]

    def state(self) -> dict[str, Any]:
        """Counts, money, rules in force."""
        state: dict[str, Any] = self._ask("GET", "state")
        return state

    def kill_job(self, job_id: str) -> None:
        """SIGKILL to the process behind a job; returns when the job has ended."""
        self._ask("POST", f"kill/{job_id}")

    def revoke_token(self, *, revoked: bool = True) -> None:
        """From now on the token is refused (or taken again)."""
        self._ask("POST", "token", {"revoked": revoked})

    def reset(self) -> None:
        """Ends and forgets all jobs, rules and calls."""
        self._ask("POST", "reset")

    def wait_until_idle(self, timeout: float = 10.0) -> bool:
        """Waits until no job is alive. False when one still is after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        assert self._admin is not None, "the Hub is not running"
        response = self._admin.request(method, path, json=body)
        if response.status_code == 400:
            raise ValueError(response.json()["error"])
        response.raise_for_status()
        return response.json()
