"""The matrix of faults: every call that a run makes, in every way in which it can fail."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from typing import Any

from bench.scene import Case, Scene

_WAYS: dict[str, dict[str, Any]] = {
    "500": {"status": 500, "body": {"error": "internal error"}},
    "429": {"status": 429, "retry_after": 1},
    "dropped": {"drop": "before"},
    "slow": {"delay": 4},
    "never": {"hang": True},
}
# Calls, the part of a run that makes them, and how often they fail before they work again.
_JOBS_CALLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("whoami", {}),
    ("jobs.hardware", {}),
    ("jobs.create", {"kind": "server"}),
    ("jobs.create", {"kind": "sandbox"}),
    ("jobs.inspect", {"kind": "server"}),
    ("jobs.list", {}),
    ("jobs.cancel", {"kind": "server"}),
)
_SANDBOX_CALLS = ("health", "exec", "write", "read")
_MODEL_CALLS = ("health", "models", "chat")
# A Hub that does not answer before anything was started stops the run: nothing is paid yet.
_BEFORE = frozenset({"whoami", "jobs.hardware"})


def cases() -> list[Case]:
    """All of them."""
    return [*_calls(), *_servers(), *_sandboxes(), *_machine(), *_kills()]


def _calls() -> list[Case]:
    found = []
    for call, match in _JOBS_CALLS:
        for way, action in _WAYS.items():
            name = f"{call} {match.get('kind', '')}".strip()
            before = call in _BEFORE and way != "slow"
            found.append(
                Case(
                    name=f"{name}: {way}",
                    rules=({"call": call, "match": match, "times": 1, "action": action},),
                    codes=frozenset({0, 3}) if before else frozenset({0}),
                    says="Nothing was started",
                    quick=(name, way) == ("jobs.create server", "dropped"),
                )
            )
    for part, names in (("sandbox", _SANDBOX_CALLS), ("model", _MODEL_CALLS)):
        for call in names:
            for way, action in _WAYS.items():
                rule = {"call": f"{part}.{call}", "from": 3, "times": 2, "action": action}
                found.append(
                    Case(
                        name=f"{part}.{call}: {way}",
                        rules=(rule,),
                        # The client's own time limits (70 s without a sign) must come first.
                        args=("--agent-timeout-multiplier", "8", "--max-call", "15s"),
                        quick=(call, way) in (("exec", "500"), ("chat", "dropped")),
                    )
                )
    return found


def _revoke(scene: Scene) -> None:
    """Nobody can stop anything with a token that is refused: the Hub's own timeouts would. With a
    good token, cleanup does."""
    scene.until("agent-start", 2)
    scene.hub.revoke_token()
    scene.until_ended()
    scene.hub.revoke_token(revoked=False)
    scene.cleanup()


def _servers() -> list[Case]:
    def die_at(number: int) -> Any:
        def act(scene: Scene) -> None:
            scene.until("agent-start", number)
            scene.kill_server()

        return act

    slow = {"model_thinking": 0.5}
    return [
        Case(name="server dies at the start", act=die_at(1), settings=slow),
        Case(name="server dies in the middle", act=die_at(2), settings=slow, quick=True),
        Case(name="server dies at the end", act=die_at(4), settings=slow),
        Case(
            name="server dies while it loads",
            rules=({"call": "server.start", "times": 1, "action": {"job": "die", "delay": 0.5}},),
            codes=frozenset({0, 3}),
            unscored=frozenset({"missing"}),
            says="ended as ERROR",
        ),
        Case(
            name="server runs out of time",
            rules=({"call": "server.start", "times": 1, "action": {"job": "timeout", "delay": 7}},),
            settings=slow,
        ),
        Case(
            name="server never scheduled",
            rules=({"call": "server.start", "action": {"job": "stuck"}},),
            args=("--schedule-timeout", "8s"),
            codes=frozenset({3}),
            unscored=frozenset({"missing"}),
            says="not scheduled",
        ),
        Case(
            name="server never answers",
            rules=({"call": "server.start", "action": {"job": "deaf"}},),
            args=("--load-timeout", "8s"),
            codes=frozenset({3}),
            unscored=frozenset({"missing"}),
            says="did not answer",
        ),
        Case(
            name="creation answered 500, but created",
            rules=(
                {
                    "call": "jobs.create",
                    "match": {"kind": "server"},
                    "times": 1,
                    "action": {"status": 500, "after": True},
                },
            ),
            quick=True,
        ),
        Case(
            name="creation answered 402 (no credit)",
            rules=(
                {"call": "jobs.create", "match": {"kind": "server"}, "action": {"status": 402}},
            ),
            codes=frozenset({3}),
            unscored=frozenset({"missing"}),
            says="402",
        ),
        Case(
            name="sandbox creation answered 402",
            rules=(
                {"call": "jobs.create", "match": {"kind": "sandbox"}, "action": {"status": 402}},
            ),
            codes=frozenset({4}),
            unscored=frozenset({"setup", "missing"}),
        ),
        Case(
            name="token revoked in the middle",
            act=_revoke,
            settings=slow,
            codes=frozenset({3, 4}),
            unscored=frozenset({"setup", "missing", "interrupted", "infrastructure"}),
        ),
    ]


def _sandboxes() -> list[Case]:
    return [
        Case(
            name="sandboxes strained by concurrency (70 % at 8, few at 3)",
            rules=(
                {
                    "call": "sandbox.exec",
                    "per": "job",
                    "times": 1,
                    "when": {"by_concurrency": {"1": 0.0, "3": 0.05, "8": 0.7}},
                    "action": {"status": 500},
                },
            ),
            args=("--n-concurrent", "8", "--n-attempts", "4"),
        ),
        Case(
            name="a sandbox that never starts",
            rules=({"call": "sandbox.start", "times": 1, "action": {"job": "die"}},),
        ),
        Case(
            name="a sandbox that dies at work",
            rules=({"call": "sandbox.start", "times": 1, "action": {"job": "die", "delay": 1.5}},),
            quick=True,
        ),
    ]


def _machine() -> list[Case]:
    def kill_harbor(scene: Scene) -> None:
        import json

        scene.until("agent-start", 2)
        state = json.loads(scene.run_dir.state.read_text(encoding="utf-8"))
        os.kill(state["harbor_pid"], signal.SIGKILL)

    return [
        Case(name="Harbor killed", act=kill_harbor, quick=True),
        *_clocks(),
        *_disk(),
    ]


def _clocks() -> list[Case]:
    """Needs a C compiler, for `clock.c`."""
    if shutil.which("cc") is None:
        print("left out: clock jumps (no C compiler)")
        return []

    def jump(seconds: int) -> Any:
        def act(scene: Scene) -> None:
            scene.until("agent-start", 2)
            scene.set_clock(seconds)

        return act

    slow = {"model_thinking": 0.5}
    return [
        Case(name="clock jumps an hour ahead", clock=0, act=jump(3600), settings=slow),
        Case(name="clock jumps an hour back", clock=0, act=jump(-3600), settings=slow),
        Case(name="clock a minute behind", clock=-60),
    ]


def _disk() -> list[Case]:
    """Needs root, for a file system of its own."""
    if os.geteuid() != 0:
        print("left out: disk full (needs root)")
        return []

    def fill(scene: Scene) -> None:
        scene.until("agent-start", 2)
        filler = scene.fill_disk()
        assert scene.process is not None
        while scene.process.poll() is None:
            time.sleep(0.1)
        filler.unlink()

    def fill_for_a_while(scene: Scene) -> None:
        scene.until("agent-start", 2)
        filler = scene.fill_disk()
        time.sleep(4)
        filler.unlink()

    slow = {"model_thinking": 0.5}
    return [
        Case(name="disk full, then freed", act=fill, disk_mb=1200, again=1, settings=slow),
        Case(name="disk full for 4 s", act=fill_for_a_while, disk_mb=1200, again=1, settings=slow),
    ]


def _kills() -> list[Case]:
    def kill_after(seconds: float) -> Any:
        def act(scene: Scene) -> None:
            time.sleep(seconds)
            scene.signal(signal.SIGKILL)

        return act

    def stop_at(event: str, number: int) -> Any:
        def act(scene: Scene) -> None:
            scene.until(event)
            scene.signal(number)

        return act

    dice = random.Random(25)
    found = [
        Case(
            name=f"tbh killed -9 after {seconds:.1f} s",
            act=kill_after(seconds),
            again=1,
            quick=place == 12,
        )
        for place, seconds in enumerate(sorted(dice.uniform(0.3, 16.0) for _ in range(25)))
    ]
    for event in ("said", "pass_started", "agent-start", "verification-start"):
        found.append(Case(name=f"SIGTERM at {event}", act=stop_at(event, signal.SIGTERM), again=1))
    found.append(
        Case(name="SIGINT at agent-start", act=stop_at("agent-start", signal.SIGINT), again=1)
    )
    return found
