"""The controller's side of the plugin: who may ask, who waits, what is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from tbh_action.controller import control as module
from tbh_action.controller.control import Control
from tbh_action.policy.schedule import Admission

GO = Admission(go=True, reason="free")
WAIT = Admission(go=False, reason="full")
OVER = Admission(go=False, reason="over", final=True)


class Stage:
    """A control whose decision can be changed, and what it told."""

    def __init__(self) -> None:
        self.answer = GO
        self.told: list[dict[str, Any]] = []
        self.control = Control(
            "key",
            first=lambda: ["long", "short"],
            admit=lambda _: self.answer,
            changed=self.told.append,
        )
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(Starlette(routes=self.control.routes())),
            base_url="http://control/control",
            headers={"Authorization": "Bearer key"},
        )

    async def ask(self, path: str, **body: Any) -> dict[str, Any]:
        response = await self.client.post(path, json=body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def start(self, trial: str = "t__a") -> dict[str, Any]:
        return await self.ask("/start", trial=trial, task="demo/t")


def played(scene: Callable[[Stage], Awaitable[None]]) -> Stage:
    """A stage on which `scene` was played."""

    async def play() -> Stage:
        stage = Stage()
        async with stage.client:
            await scene(stage)
        return stage

    return asyncio.run(play())


@pytest.mark.parametrize("path", ["/order", "/start", "/event", "/orders"])
@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Bearer key2", "key", "Bearer ü"])
def test_routes__want_the_runs_key(path: str, header: str) -> None:
    async def scene(stage: Stage) -> None:
        response = await stage.client.post(
            path,
            json={},
            headers={"Authorization": header.encode("utf-8")},  # type: ignore[dict-item]
        )
        assert response.status_code == 401

    stage = played(scene)
    assert stage.control.heard_at is None
    assert stage.told == []


def test_order__is_told() -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.ask("/order") == {"first": ["long", "short"]}

    assert played(scene).control.heard_at is not None


def test_start__admitted_at_once_and_asked_again() -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.start() == {"go": True}
        stage.answer = WAIT
        assert await stage.start() == {"go": True}, "the answer may have been lost on its way"
        assert len(stage.control.running) == 1

    assert [event["event"] for event in played(scene).told] == ["admitted"]


def test_start__waits_until_something_changes() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer = WAIT
        asked = asyncio.ensure_future(stage.start())
        await asyncio.sleep(0.05)
        assert not asked.done()
        assert stage.control.running == []
        assert stage.control.waiting == [WAIT]
        stage.answer = GO
        stage.control.recheck()
        assert await asyncio.wait_for(asked, 0.4) == {"go": True}
        assert stage.control.waiting == []

    told = played(scene).told
    assert [(e["event"], e.get("reason")) for e in told] == [("held", "full"), ("admitted", None)]


def test_start__is_answered_before_the_plugins_patience_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LONG_POLL", 0.1)

    async def scene(stage: Stage) -> None:
        stage.answer = OVER
        assert await asyncio.wait_for(stage.start(), 2) == {"go": False}
        assert stage.control.waiting == [OVER]
        stage.answer = GO
        assert await stage.start() == {"go": True}

    played(scene)


def test_start__a_reason_is_told_once_and_each_new_one_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LONG_POLL", 0.1)

    async def scene(stage: Stage) -> None:
        stage.answer = WAIT
        await stage.start()
        await stage.start()
        stage.answer = OVER
        await stage.start()

    assert [event["reason"] for event in played(scene).told] == ["full", "over"]


def test_event__phases_and_the_end() -> None:
    phases = []

    async def scene(stage: Stage) -> None:
        await stage.start()
        for event in ("environment-start", "agent-start", "agent-end", "verification-start"):
            await stage.ask("/event", event=event, trial="t__a", task="demo/t")
            phases.append(stage.control.live["t__a"].phase)
        assert stage.control.live["t__a"].agent_at is not None
        await stage.ask("/event", event="end", trial="t__a")
        assert stage.control.running == []
        await stage.ask("/event", event="end", trial="nobody")
        await stage.ask("/event", event="sandbox", trial="t__a", job_id="j")

    told = played(scene).told
    assert phases == ["environment", "agent", "verifier", "verifier"]
    assert [event["event"] for event in told][-3:] == ["end", "end", "sandbox"]


def test_event__the_end_of_one_lets_the_next_in() -> None:
    async def scene(stage: Stage) -> None:
        stage.control._admit = lambda _: GO if not stage.control.running else WAIT
        await stage.start("one")
        two = asyncio.ensure_future(stage.start("two"))
        await asyncio.sleep(0.05)
        await stage.ask("/event", event="end", trial="one")
        assert await asyncio.wait_for(two, 0.4) == {"go": True}
        assert [trial.trial for trial in stage.control.running] == ["two"]

    played(scene)


def test_orders__each_is_given_once() -> None:
    async def scene(stage: Stage) -> None:
        stage.control.cancel("b")
        stage.control.cancel("a")
        assert await stage.ask("/orders") == {"cancel": ["a", "b"]}
        assert await stage.ask("/orders") == {"cancel": []}

    played(scene)


def test_new_pass__forgets_the_last_harbor() -> None:
    async def scene(stage: Stage) -> None:
        await stage.start()
        stage.control.cancel("t__a")
        stage.control.new_pass()
        assert stage.control.live == {}
        assert stage.control.heard_at is None
        assert await stage.ask("/orders") == {"cancel": []}

    played(scene)
