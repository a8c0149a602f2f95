"""Runs inside Harbor's process: tells the controller what trials do, and holds new ones back.

Given to Harbor as `--plugin tbh_action.harbor.plugin:TbhPlugin`; the controller's address and key
come from the environment. Without them the plugin does nothing, so that the same command can be
run by hand.

Three duties: (1) a trial waits in Harbor's START hook until the controller admits it; (2) every
sandbox is labelled with the run when it is created, so that nothing paid can be lost; (3) when the
controller is gone, Harbor is stopped the clean way (SIGINT), which cancels its sandboxes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import httpx
from harbor.models.job.plugin import BaseJobPlugin
from harbor.trial.hooks import TrialEvent, TrialHookEvent

from tbh_action.labels import PROJECT, PROJECT_LABEL, RUN_LABEL, TRIAL_LABEL, label_value
from tbh_action.server.hub_client import limit_waiting

if TYPE_CHECKING:
    from harbor.job import Job
    from harbor.models.job.result import JobResult

logger = logging.getLogger(__name__)

ORDERS_EVERY: Final = 2.0
# How long the controller may be unreachable before Harbor is stopped.
CONTROLLER_PATIENCE: Final = 20.0

_trial: ContextVar[str] = ContextVar("tbh_trial", default="")


class TbhPlugin(BaseJobPlugin):
    """Connects one Harbor job with its controller; see the module's docstring."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._url = os.environ.get("TBH_CONTROL_URL", "")
        self._run = os.environ.get("TBH_RUN_ID", "")
        headers = {"Authorization": f"Bearer {os.environ.get('TBH_CONTROL_KEY', '')}"}
        self._client = httpx.AsyncClient(
            base_url=self._url, headers=headers, timeout=40, trust_env=False
        )
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._stopping = False

    async def on_job_start(self, job: Job) -> None:
        if not self._url:
            return
        # A creation call without an answer would hold its thread, and Harbor's end, for ever.
        limit_waiting()
        await self._put_in_order(job)
        _label_sandboxes(self._run, self._sandbox_created)
        job.add_hook(TrialEvent.START, self._on_start)
        for event in TrialEvent:
            if event is not TrialEvent.START:
                job.add_hook(event, self._on_event)
        self._watch = asyncio.create_task(self._follow_orders())

    async def on_job_end(self, job_result: JobResult) -> None:  # noqa: ARG002 (Harbor's signature)
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        await self._client.aclose()

    async def _put_in_order(self, job: Job) -> None:
        """Longest expected tasks first. Harbor has no public way to order its trials; where this
        attribute is gone, its own order stands."""
        pending = getattr(job, "_remaining_trial_configs", None)
        order = (await self._ask("/control/order", {})).get("first", [])
        if not isinstance(pending, list) or not order:
            return
        rank = {name: place for place, name in enumerate(order)}

        def place(config: Any) -> int:
            return rank.get(config.task.get_task_id().get_name().rsplit("/", 1)[-1], len(rank))

        pending.sort(key=place)

    async def _on_start(self, event: TrialHookEvent) -> None:
        """Waits until the controller admits the trial."""
        _trial.set(event.trial_name)
        task = asyncio.current_task()
        if task is not None:
            self._tasks[event.trial_name] = task
        body = {"trial": event.trial_name, "task": event.task_name}
        while not (await self._ask("/control/start", body)).get("go"):
            pass

    async def _on_event(self, event: TrialHookEvent) -> None:
        body: dict[str, Any] = {
            "event": event.event.value,
            "trial": event.trial_name,
            "task": event.task_name,
            "at": datetime.now(UTC).isoformat(),
        }
        if event.event is TrialEvent.END:
            self._tasks.pop(event.trial_name, None)
            error = event.result.exception_info
            body["exception"] = error.exception_type if error else None
        await self._ask("/control/event", body)

    async def _sandbox_created(self, trial: str, job_id: str) -> None:
        body = {"event": "sandbox", "trial": trial, "job_id": job_id}
        await self._ask("/control/event", body)

    async def _follow_orders(self) -> None:
        """Asks for trials to end early (a watchdog's verdict) as long as the job runs."""
        while True:
            await asyncio.sleep(ORDERS_EVERY)
            orders = await self._ask("/control/orders", {})
            for name in orders.get("cancel", []):
                task = self._tasks.pop(name, None)
                if task is not None:
                    logger.warning("tbh: ending trial %s: %s", name, "no progress")
                    task.cancel()

    async def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The controller's answer. A controller that stays away is dead: Harbor is interrupted."""
        deadline = asyncio.get_running_loop().time() + CONTROLLER_PATIENCE
        while True:
            try:
                response = await self._client.post(path, json=body)
                response.raise_for_status()
                answer: dict[str, Any] = response.json()
                return answer
            except (httpx.HTTPError, ValueError) as error:
                if asyncio.get_running_loop().time() > deadline:
                    await self._stop_harbor(error)
                await asyncio.sleep(0.5)

    async def _stop_harbor(self, error: Exception) -> None:
        """Interrupts Harbor once (a second SIGINT would break its clean stop), and waits for it."""
        if not self._stopping:
            self._stopping = True
            logger.error("tbh: the controller is gone (%s); stopping Harbor", error)
            os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()


def _label_sandboxes(run: str, created: Any) -> None:
    """Makes each sandbox that Harbor creates carry the run's label, and reports its job id.

    `Sandbox.create` has a public `labels` argument that Harbor does not use. A label is set in the
    creation call itself, so that even a sandbox whose creation was answered with an error is found.
    """
    try:
        from harbor.environments import hf_sandbox
    except ImportError:
        return
    original = hf_sandbox.Sandbox
    loop = asyncio.get_running_loop()

    class LabelledSandbox(original):  # type: ignore[misc, valid-type]
        @classmethod
        @functools.wraps(original.create)
        def create(cls, *args: Any, **kwargs: Any) -> Any:
            trial = _trial.get()
            labels = {
                PROJECT_LABEL: PROJECT,
                RUN_LABEL: label_value(run),
                TRIAL_LABEL: label_value(trial),
            }
            kwargs["labels"] = {**(kwargs.get("labels") or {}), **labels}
            sandbox = original.create(*args, **kwargs)
            try:
                asyncio.run_coroutine_threadsafe(created(trial, str(sandbox.id)), loop).result(30)
            except Exception as error:  # noqa: BLE001 (the sandbox is there: Harbor must have it)
                logger.warning("tbh: sandbox %s could not be reported: %r", sandbox.id, error)
            return sandbox

    hf_sandbox.Sandbox = LabelledSandbox
