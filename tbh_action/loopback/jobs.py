"""A job of the loopback Hub: its stages, log, costs, and how the Jobs API describes it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from tbh_action.labels import TRIAL_LABEL
from tbh_action.loopback.faults import Action, Call
from tbh_action.loopback.hardware import usd_per_second
from tbh_action.loopback.processes import JobProcess
from tbh_action.loopback.tasks import task_of_image

ENDED: Final = frozenset({"COMPLETED", "CANCELED", "ERROR", "DELETED"})
DEFAULT_TIMEOUT: Final = 30 * 60


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
