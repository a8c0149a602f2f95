"""The life of each job of the loopback Hub: SCHEDULING, RUNNING, an end.

A job whose labels say `hf-sandbox` is a sandbox, one whose command is known to start a model
server is a server, one whose command starts the controller of a detached run is that; any other
command is not run, and completes after a moment.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tbh_action.loopback import processes
from tbh_action.loopback.faults import Action, Call
from tbh_action.loopback.jobs import Job, end_by_fault, task_of
from tbh_action.loopback.processes import JobProcess
from tbh_action.loopback.settings import Settings

_IDLE_CHECK: Final = 0.5

Decide = Callable[[Call], Action | None]


class Board:
    """All jobs, and what keeps each of them alive."""

    def __init__(self, settings: Settings, folder: Path, decide: Decide) -> None:
        self._settings = settings
        self._folder = folder
        self._decide = decide
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._attempts: Counter[str] = Counter()
        self.jobs: dict[str, Job] = {}
        # How a controller reaches this Hub.
        self.environment: dict[str, str] = {}
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
            controls = processes.controller_arguments(request.get("command") or []) is not None
            kind = "controller" if controls else "other"
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
        if job.kind == "controller":
            config = processes.controller_config(job.request, self.environment, self._folder)
            command = processes.controller_command()
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
