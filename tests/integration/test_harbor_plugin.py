"""The plugin inside Harbor's process, against a real controller over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tbh_action.controller.control import Control
from tbh_action.gateway import Gateway, serve
from tbh_action.policy.schedule import Admission

pytestmark = pytest.mark.slow

KEY = "the-runs-key"
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


class Controller:
    """A control behind a real port; `told` is what it heard."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.answer = Admission(go=True, reason="free")
        self.control = Control(
            KEY,
            first=lambda: ["long", "short"],
            admit=lambda _: self.answer,
            changed=self.told.append,
        )

    @contextlib.asynccontextmanager
    async def listening(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        gateway = Gateway(
            KEY,
            patience=5,
            token=None,
            extra_routes=self.control.routes(),
            journal=lambda _: None,
        )
        async with serve(gateway) as url:
            monkeypatch.setenv("TBH_CONTROL_URL", url.removesuffix("/v1"))
            monkeypatch.setenv("TBH_CONTROL_KEY", KEY)
            monkeypatch.setenv("TBH_RUN_ID", "demo--abc123")
            yield


class Job:
    """What the plugin touches of Harbor's job."""

    def __init__(self, *names: str) -> None:
        self.hooks: dict[Any, Callable[[Any], Awaitable[None]]] = {}
        self._remaining_trial_configs = [
            SimpleNamespace(
                task=SimpleNamespace(
                    get_task_id=lambda name=name: SimpleNamespace(get_name=lambda: name)
                )
            )
            for name in names
        ]

    def add_hook(self, event: Any, hook: Callable[[Any], Awaitable[None]]) -> None:
        self.hooks[event] = hook

    @property
    def order(self) -> list[str]:
        return [c.task.get_task_id().get_name() for c in self._remaining_trial_configs]


def happened(event: Any, trial: str = "t__aaaaaaa", exception: str | None = None) -> Any:
    info = SimpleNamespace(exception_type=exception) if exception else None
    return SimpleNamespace(
        event=event,
        trial_name=trial,
        task_name="demo/t",
        timestamp=NOW,
        result=SimpleNamespace(exception_info=info),
    )


@pytest.fixture
def sandboxes() -> Any:
    """Harbor's module of the sandbox, with a `Sandbox` that notes its labels."""
    from harbor.environments import hf_sandbox

    original = hf_sandbox.Sandbox

    class Noted:
        made: list[dict[str, Any]] = []  # noqa: RUF012 (shared on purpose)

        def __init__(self) -> None:
            self.id = "job-1"

        @classmethod
        def create(cls, *args: Any, **kwargs: Any) -> Noted:
            cls.made.append(kwargs)
            return cls()

    Noted.made.clear()
    hf_sandbox.Sandbox = Noted  # type: ignore[misc, assignment]
    yield hf_sandbox
    hf_sandbox.Sandbox = original  # type: ignore[misc]


@pytest.mark.usefixtures("sandboxes")
def test_plugin__without_a_controller_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from tbh_action.harbor.plugin import TbhPlugin

    monkeypatch.delenv("TBH_CONTROL_URL", raising=False)

    async def scene() -> Job:
        job = Job("short", "long")
        plugin = TbhPlugin()
        await plugin.on_job_start(job)  # type: ignore[arg-type]
        await plugin.on_job_end(None)  # type: ignore[arg-type]
        return job

    job = asyncio.run(scene())
    assert job.hooks == {}
    assert job.order == ["short", "long"]


@pytest.mark.usefixtures("sandboxes")
def test_plugin__the_controllers_order_and_every_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    from harbor.trial.hooks import TrialEvent

    from tbh_action.harbor.plugin import TbhPlugin

    async def scene() -> Job:
        async with Controller().listening(monkeypatch):
            job = Job("other", "demo/short", "long", "another")
            plugin = TbhPlugin()
            await plugin.on_job_start(job)  # type: ignore[arg-type]
            await plugin.on_job_end(None)  # type: ignore[arg-type]
            return job

    job = asyncio.run(scene())
    assert job.order == ["long", "demo/short", "other", "another"]
    assert set(job.hooks) == set(TrialEvent)


@pytest.mark.usefixtures("sandboxes")
def test_plugin__a_trial_waits_and_all_that_happens_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from harbor.trial.hooks import TrialEvent

    from tbh_action.harbor.plugin import TbhPlugin

    async def scene() -> Controller:
        controller = Controller()
        async with controller.listening(monkeypatch):
            job, plugin = Job(), TbhPlugin()
            await plugin.on_job_start(job)  # type: ignore[arg-type]
            controller.answer = Admission(go=False, reason="full")
            start = asyncio.ensure_future(job.hooks[TrialEvent.START](happened(TrialEvent.START)))
            await asyncio.sleep(0.3)
            assert not start.done()
            controller.answer = Admission(go=True, reason="free")
            controller.control.recheck()
            await asyncio.wait_for(start, 2)
            for event in TrialEvent:
                if event not in (TrialEvent.START, TrialEvent.CANCEL):
                    error = "SandboxError" if event is TrialEvent.END else None
                    await job.hooks[event](happened(event, exception=error))
            await plugin.on_job_end(None)  # type: ignore[arg-type]
        return controller

    told = asyncio.run(scene()).told
    assert [event["event"] for event in told][:2] == ["held", "admitted"]
    assert {event["event"] for event in told[2:]} == {
        "environment-start", "agent-start", "agent-end", "verification-start", "end",
    }  # fmt: skip
    assert next(e for e in told if e["event"] == "end")["exception"] == "SandboxError"


def test_plugin__every_sandbox_carries_run_and_trial_and_is_reported(
    sandboxes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harbor.trial.hooks import TrialEvent

    from tbh_action.harbor.plugin import TbhPlugin

    async def scene() -> Controller:
        controller = Controller()
        async with controller.listening(monkeypatch):
            job, plugin = Job(), TbhPlugin()
            await plugin.on_job_start(job)  # type: ignore[arg-type]

            async def trial(name: str) -> None:
                await job.hooks[TrialEvent.START](happened(TrialEvent.START, name))
                await asyncio.to_thread(sandboxes.Sandbox.create, image="i", labels={"a": "b"})

            await asyncio.gather(trial("one__aaaaaaa"), trial("two__bbbbbbb"))
            await plugin.on_job_end(None)  # type: ignore[arg-type]
        return controller

    told = asyncio.run(scene()).told
    made = sandboxes.Sandbox.made
    assert {kwargs["labels"]["tbh-trial"] for kwargs in made} == {"one__aaaaaaa", "two__bbbbbbb"}
    for kwargs in made:
        assert kwargs["image"] == "i"
        assert kwargs["labels"]["tbh-run"] == "demo--abc123"
        assert kwargs["labels"]["project"] == "tbh-action"
        assert kwargs["labels"]["a"] == "b"
    reported = {(e["trial"], e["job_id"]) for e in told if e["event"] == "sandbox"}
    assert reported == {("one__aaaaaaa", "job-1"), ("two__bbbbbbb", "job-1")}


@pytest.mark.usefixtures("sandboxes")
def test_plugin__an_order_ends_the_trial_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from harbor.trial.hooks import TrialEvent

    from tbh_action.harbor import plugin as module

    monkeypatch.setattr(module, "ORDERS_EVERY", 0.05)

    async def scene() -> None:
        controller = Controller()
        async with controller.listening(monkeypatch):
            job, plugin = Job(), module.TbhPlugin()
            await plugin.on_job_start(job)  # type: ignore[arg-type]

            async def trial(name: str) -> None:
                await job.hooks[TrialEvent.START](happened(TrialEvent.START, name))
                await asyncio.sleep(1.5)

            stuck, other = (asyncio.ensure_future(trial(name)) for name in ("stuck", "other"))
            await asyncio.sleep(0.3)
            controller.control.cancel("stuck")
            with pytest.raises(asyncio.CancelledError):
                await stuck
            await other
            await plugin.on_job_end(None)  # type: ignore[arg-type]

    asyncio.run(scene())


@pytest.mark.usefixtures("sandboxes")
@pytest.mark.parametrize("why", ["gone", "wrong key"])
def test_plugin__without_its_controller_harbor_is_interrupted_once(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    from harbor.trial.hooks import TrialEvent

    from tbh_action.harbor import plugin as module

    monkeypatch.setattr(module, "CONTROLLER_PATIENCE", 0.2)

    async def scene() -> list[int]:
        came: list[int] = []
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, came.append, signal.SIGINT)
        controller = Controller()
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(controller.listening(monkeypatch))
            job, plugin = Job(), module.TbhPlugin()
            await plugin.on_job_start(job)  # type: ignore[arg-type]
            if why == "gone":
                await stack.aclose()  # its port is closed now
            else:
                controller.control._key = "another"
            waits = [
                asyncio.ensure_future(job.hooks[event](happened(event)))
                for event in (TrialEvent.START, TrialEvent.END)
            ]
            await asyncio.sleep(2)
            for wait in waits:
                assert not wait.done(), "it waits to be cancelled by Harbor's own stop"
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            await plugin.on_job_end(None)  # type: ignore[arg-type]
        return came

    assert asyncio.run(scene()) == [signal.SIGINT]
