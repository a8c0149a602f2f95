"""Jobs of the loopback Hub: SCHEDULING, RUNNING, an end; with timeouts, logs and costs.

A job whose labels say `hf-sandbox` is a sandbox, one whose command is known to start a model
server is a server; any other command is not run, and completes after a moment.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tbh_action.labels import TRIAL_LABEL
from tbh_action.loopback import processes
from tbh_action.loopback.faults import Action, Call
from tbh_action.loopback.hardware import usd_per_second
from tbh_action.loopback.processes import JobProcess
from tbh_action.loopback.settings import Settings
from tbh_action.loopback.tasks import task_of_image

ENDED: Final = frozenset({"COMPLETED", "CANCELED", "ERROR", "DELETED"})
DEFAULT_TIMEOUT: Final = 30 * 60
_IDLE_CHECK: Final = 0.5

Decide = Callable[[Call], Action | None]


@dataclass(kw_only=True, eq=False)
class Job:
    """One job. Moments are Unix times."""

    id: str
    namespace: str
    kind: str
    request: dict[str, Any]
    task: str
    attempt: int
    created_at: float
    labels: dict[str, str]
    started_at: float | None = None
    finished_at: float | None = None
    stage: str = "SCHEDULING"
    message: str | None = None
    logs: list[tuple[float, str]] = field(default_factory=list)
    process: JobProcess | None = None
    last_used: float = 0.0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    end: asyncio.Future[None] | None = None

    @property
    def ended(self) -> bool:
        return self.stage in ENDED

    @property
    def flavor(self) -> str:
        return str(self.request.get("flavor", "cpu-basic"))

    @property
    def image(self) -> str:
        return str(self.request.get("dockerImage") or self.request.get("spaceId") or "")

    @property
    def ports(self) -> list[int]:
        expose = self.request.get("expose") or {}
        return [int(port) for port in expose.get("ports", [])]

    @property
    def timeout(self) -> float:
        return float(self.request.get("timeoutSeconds") or DEFAULT_TIMEOUT)

    def running_seconds(self, now: float) -> float:
        """How long it has been running: what is paid for."""
        if self.started_at is None:
            return 0.0
        return max(0.0, (self.finished_at or now) - self.started_at)

    def usd(self, now: float) -> float:
        return self.running_seconds(now) * usd_per_second(self.flavor)

    def log(self, line: str) -> None:
        self.logs.append((time.time(), line))
        self.touch()

    def touch(self) -> None:
        """Wakes those who follow the log."""
        self.changed.set()
        self.changed = asyncio.Event()

    def finish(self, stage: str, message: str | None = None) -> None:
        """The end, once; its process goes a moment later."""
        if self.ended:
            return
        self.stage, self.message = stage, message
        self.finished_at = time.time()
        if self.end is not None and not self.end.done():
            self.end.set_result(None)
        self.touch()

    def call(self, name: str, **more: Any) -> Call:
        """A call about this job, as fault rules see it."""
        return Call(
            name=name,
            task=self.task,
            job=self.id,
            kind=self.kind,
            image=self.image,
            flavor=self.flavor,
            labels=self.labels,
            attempt=self.attempt,
            **more,
        )

    def document(self, base_url: str, owner: dict[str, str]) -> dict[str, Any]:
        """The job as the Jobs API describes it."""
        now = time.time()
        waited = (self.started_at or self.finished_at or now) - self.created_at
        urls = [f"{base_url}/proxy/{self.id}--{port}.loopback" for port in self.ports]
        started = self.started_at is not None
        return {
            "id": self.id,
            "createdAt": iso(self.created_at),
            "startedAt": iso(self.started_at),
            "finishedAt": iso(self.finished_at),
            "dockerImage": self.request.get("dockerImage"),
            "spaceId": self.request.get("spaceId"),
            "command": self.request.get("command"),
            "arguments": self.request.get("arguments", []),
            "environment": self.request.get("environment", {}),
            "secrets": dict.fromkeys(self.request.get("secrets") or {}, ""),
            "flavor": self.flavor,
            "timeoutSeconds": int(self.timeout),
            "labels": self.labels,
            "volumes": self.request.get("volumes"),
            "expose": self.request.get("expose"),
            "status": {
                "stage": self.stage,
                "message": self.message,
                "exposeUrls": urls or None,
            },
            "durations": {
                "schedulingSecs": int(waited) if started else None,
                "runningSecs": int(self.running_seconds(now)) if started else None,
                "totalSecs": int((self.finished_at or now) - self.created_at),
            },
            "owner": {**owner, "name": self.namespace},
            "initiator": owner,
        }


class Board:
    """All jobs, and what keeps each of them alive."""

    def __init__(self, settings: Settings, folder: Path, decide: Decide) -> None:
        self._settings = settings
        self._folder = folder
        self._decide = decide
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._attempts: Counter[str] = Counter()
        self.jobs: dict[str, Job] = {}
        (folder / "root").mkdir()

    def create(self, namespace: str, request: dict[str, Any]) -> Job:
        """A new job, already on its way."""
        job = self.announce(namespace, request)
        self._attempts[job.task] += job.kind == "sandbox"
        self.jobs[job.id] = job
        job.end = asyncio.get_running_loop().create_future()
        self._lives[job.id] = asyncio.create_task(self._live(job))
        return job

    def announce(self, namespace: str, request: dict[str, Any]) -> Job:
        """The job that a creation call asks for, before it exists: fault rules look at it."""
        labels = {str(key): str(value) for key, value in (request.get("labels") or {}).items()}
        kind = "sandbox" if labels.get("hf-sandbox") else "server"
        if kind == "server" and self._model_command(request, Path()) is None:
            kind = "other"
        task = task_of(labels, str(request.get("dockerImage") or "")) if kind == "sandbox" else ""
        return Job(
            id=secrets.token_hex(12),
            namespace=namespace,
            kind=kind,
            request=request,
            task=task,
            attempt=self._attempts[task] + 1 if kind == "sandbox" else 0,
            created_at=time.time(),
            labels=labels,
        )

    @property
    def sandboxes_alive(self) -> int:
        return sum(not job.ended for job in self.jobs.values() if job.kind == "sandbox")

    def attempts_of(self, task: str) -> int:
        """How many sandboxes there have been for a task."""
        return self._attempts[task]

    async def close(self) -> None:
        """Ends every job and waits until their processes are gone."""
        for job in self.jobs.values():
            job.finish("CANCELED", "the Hub stops")
        await asyncio.gather(*self._lives.values(), return_exceptions=True)

    async def settle(self, job: Job) -> None:
        """Waits until an ended job's process is gone."""
        if job.id in self._lives:
            await asyncio.wait([self._lives[job.id]])

    async def reset(self) -> None:
        """Ends and forgets all jobs."""
        await self.close()
        self.jobs.clear()
        self._lives.clear()
        self._attempts.clear()

    # ------------------------------------------------------------- one life

    async def _live(self, job: Job) -> None:
        try:
            fault = self._decide(job.call(f"{job.kind}.start"))
            await self._schedule(job, fault)
            if not job.ended:
                job.stage, job.started_at = "RUNNING", time.time()
                job.last_used = job.started_at
                job.log("===== Job started =====")
                await self._run(job, fault)
        except Exception as error:  # noqa: BLE001 (a job's failure must never be the Hub's)
            job.log(f"{type(error).__name__}: {error}")
            job.finish("ERROR", str(error))
        finally:
            if job.process is not None:
                await job.process.stop()

    async def _schedule(self, job: Job, fault: Action | None) -> None:
        name = "server_scheduling" if job.kind == "server" else "sandbox_scheduling"
        wait = self._settings.scaled(getattr(self._settings, name))
        assert job.end is not None
        if fault is not None and (fault.job == "stuck" or fault.hang):
            await job.end
        if fault is not None and fault.job is None:
            wait += fault.delay
        await asyncio.wait([job.end], timeout=wait)

    async def _run(self, job: Job, fault: Action | None) -> None:
        assert job.end is not None
        if job.kind == "other":
            await asyncio.wait([job.end], timeout=self._settings.scaled(1.0))
            return job.finish("COMPLETED")
        if fault is None or fault.job != "deaf":
            job.process = await self._start_process(job)
        if fault is not None and fault.job in ("die", "timeout"):
            asyncio.get_running_loop().call_later(fault.delay, end_by_fault, job, fault)
        waiting: list[asyncio.Future[Any]] = [job.end]
        if job.process is not None:
            waiting.append(asyncio.ensure_future(job.process.ended()))
        deadline = time.time() + job.timeout
        while not job.ended:
            left = deadline - time.time()
            if left <= 0:
                return job.finish("ERROR", "Job timeout")
            step = min(left, _IDLE_CHECK if job.kind == "sandbox" else left)
            done, _ = await asyncio.wait(waiting, timeout=step, return_when=asyncio.FIRST_COMPLETED)
            if len(waiting) > 1 and waiting[1] in done:
                code = waiting[1].result()
                stage = "COMPLETED" if code == 0 else "ERROR"
                return job.finish(stage, None if code == 0 else f"Job failed with exit code {code}")
            if self._idle(job):
                return job.finish("COMPLETED", "idle")
        return None

    def _idle(self, job: Job) -> bool:
        limit = (job.request.get("environment") or {}).get("SBX_IDLE_TIMEOUT")
        return limit is not None and time.time() - job.last_used > float(limit)

    async def _start_process(self, job: Job) -> JobProcess:
        socket = self._folder / job.id[-12:]
        if job.kind == "sandbox":
            config = processes.sandbox_config(
                image=job.image,
                environment=job.request.get("environment") or {},
                token=str((job.request.get("secrets") or {}).get("SBX_TOKEN", "")),
                socket=socket,
                root=self._folder / "root",
            )
            command = processes.sandbox_command()
            return await JobProcess.start(command, socket, log=job.log, first_line=config)
        command_line = self._model_command(job.request, socket)
        assert command_line is not None
        return await JobProcess.start(command_line, socket, log=job.log)

    def _model_command(self, request: dict[str, Any], socket: Path) -> list[str] | None:
        settings = self._settings
        return processes.model_command(
            request.get("command") or [],
            socket,
            loading=settings.scaled(settings.model_loading),
            thinking=settings.scaled(settings.model_thinking),
        )


def end_by_fault(job: Job, fault: Action) -> None:
    """Ends the job as the rule says, with its last words."""
    if job.ended:
        return
    for line in fault.logs:
        job.log(line)
    if fault.job == "timeout":
        job.finish("ERROR", fault.message or "Job timeout")
    else:
        message = fault.message or f"Job failed with exit code {fault.exit_code}"
        job.finish("ERROR", message)
        if job.process is not None:
            job.process.kill()


def task_of(labels: dict[str, str], image: str) -> str:
    """The task that a sandbox is for: from the trial in its label, else from its image."""
    trial = labels.get(TRIAL_LABEL, "")
    if "__" in trial:
        return trial.rsplit("__", 1)[0]
    return task_of_image(image)


def iso(moment: float | None) -> str | None:
    """As the Hub writes moments."""
    if moment is None:
        return None
    text = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
