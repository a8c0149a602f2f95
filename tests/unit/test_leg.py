"""One leg while it lives: what the plugin tells becomes ledger, state, limit and lines."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from specs import seed, task
from trials import document, failure, put

from tbh_action.controller.control import LiveTrial
from tbh_action.controller.journal import Journal
from tbh_action.controller.leg import Leg, Limits
from tbh_action.controller.state import load, new_state
from tbh_action.rundir import RunDir, read_lines
from tbh_action.scoring import ledger
from tbh_action.server.hf_job import PaidJob

NAMES = ("demo/long", "demo/short", "demo/t")


class Scene:
    """A leg over three tasks, and what it said."""

    def __init__(self, root: Path, *, limits: Limits | None = None, **options: Any) -> None:
        self.run_dir = RunDir(root)
        self.run_dir.harbor_job.mkdir(parents=True)
        self.lines: list[str] = []
        state = new_state("r")
        state.prices = {"h200": 1.0, "cpu-upgrade": 0.5}
        self.leg = Leg(
            spec=seed(**options),
            run_dir=self.run_dir,
            state=state,
            journal=Journal(self.run_dir.events, out=self.lines.append),
            tasks={
                "demo/long": task("demo/long", agent_timeout=9000.0),
                "demo/short": task("demo/short", agent_timeout=60.0),
                "demo/t": task("demo/t"),
            },
            limits=limits or Limits(),
            earlier={},
            key="k",
        )
        self.supervisor: Any = SimpleNamespace(up=True, failed=None, intervals=[])
        self.leg.supervisor = self.supervisor

    def runs(self, trial: str, name: str = "demo/t", since: float = 0.0) -> None:
        """`trial` was admitted and its agent is at work, `since` seconds ago."""
        then = time.monotonic() - since
        self.leg.control.live[trial] = LiveTrial(
            trial=trial, task=name, phase="agent", since=then, admitted_at=then, agent_at=then
        )

    def ends(self, trial: str, **result: Any) -> None:
        put(self.run_dir.harbor_job, trial, document(**result))
        self.leg.changed({"event": "end", "trial": trial})


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_first__the_longest_first_and_what_does_not_fit_last(tmp_path: Path) -> None:
    assert Scene(tmp_path / "a").leg.first() == ["long", "t", "short"]
    soon = Limits(deadline=time.monotonic() + 7200)
    assert Scene(tmp_path / "b", limits=soon).leg.first() == ["t", "short", "long"]


def test_admit__up_to_the_limit(scene: Scene) -> None:
    assert scene.leg.admit("demo/t").go
    for number in range(3):
        scene.runs(f"t__{number}")
    admission = scene.leg.admit("demo/t")
    assert (admission.go, admission.final) == (False, False)


def test_admit__waits_for_the_server(scene: Scene) -> None:
    scene.supervisor.up = False
    admission = scene.leg.admit("demo/t")
    assert (admission.go, admission.final) == (False, False)
    assert "server" in admission.reason


def test_admit__nothing_that_does_not_fit_into_the_leg(tmp_path: Path) -> None:
    leg = Scene(tmp_path, limits=Limits(deadline=time.monotonic() + 7200)).leg
    assert leg.admit("demo/short").go
    late = leg.admit("demo/long")
    assert (late.go, late.final) == (False, True)


def test_admit__nothing_after_a_stop(scene: Scene) -> None:
    scene.leg.stop = "a burst"
    admission = scene.leg.admit("demo/t")
    assert (admission.go, admission.final, admission.reason) == (False, True, "a burst")


def test_admit__the_projected_cost_has_a_say(tmp_path: Path) -> None:
    leg = Scene(tmp_path, limits=Limits(max_cost=11.0)).leg
    assert leg.admit("demo/short").go, "(60 s × 4 + 180 s) at $1.50 a minute"
    held = leg.admit("demo/long")
    assert not held.go
    assert "--max-cost" in held.reason


def test_changed__a_sandbox_is_on_disk_at_once_and_ends_with_its_trial(scene: Scene) -> None:
    scene.runs("t__aaaaaaa")
    scene.leg.changed({"event": "sandbox", "trial": "t__aaaaaaa", "job_id": "j1"})
    state = load(scene.run_dir)
    assert state is not None
    assert [(job.job_id, job.trial, job.ended) for job in state.sandboxes] == [
        ("j1", "t__aaaaaaa", False)
    ]
    assert state.sandboxes[0].flavor == "cpu-upgrade"
    scene.ends("t__aaaaaaa")
    (job,) = scene.leg.state.sandboxes
    assert job.ended


def test_changed__an_end_is_in_the_ledger_and_told(scene: Scene) -> None:
    scene.runs("t__aaaaaaa")
    scene.ends("t__aaaaaaa")
    scene.runs("t__bbbbbbb", "demo/short")
    scene.ends("t__bbbbbbb", task="demo/short", reward=0.0)
    scene.runs("t__ccccccc", "demo/long")
    scene.ends("t__ccccccc", task="demo/long", exception_info=failure("SandboxError"))
    attempts = ledger.read_attempts(scene.run_dir.attempts)
    assert [(a.trial, a.scored, a.passed) for a in attempts] == [
        ("t__aaaaaaa", True, True),
        ("t__bbbbbbb", True, False),
        ("t__ccccccc", False, False),
    ]
    marks = [line.split("  ", 2)[1:] for line in scene.lines]
    assert [mark[0] for mark in marks] == ["✓ demo/t", "✗ demo/short", "! demo/long"]
    assert "[1/3 scored, 1 passed]" in scene.lines[0]
    assert "[2/3 scored, 1 passed]" in scene.lines[2]
    assert "errored (infrastructure)" in scene.lines[2]


def test_changed__every_event_is_kept_with_its_pass(scene: Scene) -> None:
    scene.leg.new_pass(2)
    scene.leg.changed({"event": "agent-start", "trial": "t__a"})
    events = [
        event for event in read_lines(scene.run_dir.events) if event["event"] != "concurrency"
    ]
    assert [(event["event"], event["pass"]) for event in events] == [("agent-start", 2)]


def test_changed__a_burst_of_wrong_set_up_stops_the_run(scene: Scene) -> None:
    for number, name in enumerate(NAMES):
        trial = f"t__{number}aaaaaa"
        scene.runs(trial, name)
        scene.ends(trial, task=name, reward=None, exception_info=failure("AuthenticationError"))
    assert scene.leg.stop is not None
    assert scene.leg.tick(time.monotonic()) == scene.leg.stop
    assert any("stopping: " in line for line in scene.lines)


def test_changed__a_full_disk_does_not_end_what_is_earned(scene: Scene) -> None:
    scene.runs("t__aaaaaaa")
    put(scene.run_dir.harbor_job, "t__aaaaaaa", document())
    # A directory in the place of each file: no write succeeds.
    for path in (scene.run_dir.attempts, scene.run_dir.state):
        path.unlink(missing_ok=True)
        (path / "x").mkdir(parents=True)
    scene.leg.changed({"event": "end", "trial": "t__aaaaaaa"})
    scene.leg.save()
    said = "\n".join(scene.lines)
    assert "cannot write the ledger" in said
    assert "cannot write state.json" in said
    assert "✓ demo/t" in said


def test_tick__goes_on_while_nothing_is_wrong(scene: Scene) -> None:
    scene.runs("t__a")
    scene.leg.control.heard_at = time.monotonic()
    assert scene.leg.tick(time.monotonic()) is None


def test_tick__the_servers_failure_ends_the_pass(scene: Scene) -> None:
    scene.supervisor.failed = "no server"
    assert scene.leg.tick(time.monotonic()) == "no server"


def test_tick__the_time_is_up(tmp_path: Path) -> None:
    leg = Scene(tmp_path, limits=Limits(deadline=time.monotonic() - 1)).leg
    reason = leg.tick(time.monotonic())
    assert reason is not None
    assert "--time-budget" in reason


def test_tick__the_money_is_up(tmp_path: Path) -> None:
    scene = Scene(tmp_path, limits=Limits(max_cost=5.0))
    job = PaidJob(kind="server", nonce="n", flavor="h200", job_id="j", stage="COMPLETED")
    scene.leg.record_paid(replace(job, seconds=301.0))
    assert scene.leg.spent() == pytest.approx(301 / 60)
    reason = scene.leg.tick(time.monotonic())
    assert reason is not None
    assert "--max-cost" in reason


def test_tick__a_stuck_trial_is_ended_once(scene: Scene) -> None:
    scene.leg.control.heard_at = time.monotonic()
    scene.runs("t__a", "demo/short", since=60 * 4 + 601)
    scene.runs("t__b", "demo/short", since=60)
    for _ in range(3):
        scene.leg.tick(time.monotonic())
    ended = [line for line in scene.lines if "ending t__a" in line]
    assert len(ended) == 1
    assert not any("t__b" in line for line in scene.lines)


def test_tick__a_pass_whose_trials_all_wait_for_good_is_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path, limits=Limits(deadline=time.monotonic() + 600))
    leg = scene.leg
    leg.control.heard_at = time.monotonic()
    leg.control.live["t__a"] = LiveTrial(
        trial="t__a", task="demo/long", phase="waiting", since=0.0, held=leg.admit("demo/long")
    )
    reasons = [leg.tick(time.monotonic()) for _ in range(4)]
    assert reasons[0] is None, "Harbor takes a moment from one trial to the next"
    assert reasons[-1] is not None
    assert "left in this leg" in reasons[-1]
