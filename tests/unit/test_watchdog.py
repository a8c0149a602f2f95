from __future__ import annotations

from typing import Any

import pytest

from tbh_action.harbor.tasks import TaskInfo
from tbh_action.policy.watchdog import (
    AGENT_SETUP_TIMEOUT,
    BUILD_TIMEOUT,
    CANCEL_GRACE,
    SILENCE,
    START_UP,
    VERIFIER_TIMEOUT,
    HarborView,
    Phase,
    PhaseLimits,
    Watched,
    harbor_hung,
    phase_limits,
    stuck_trials,
)

LIMITS = PhaseLimits(environment=100.0, agent=1000.0, verifier=200.0)


def watched(trial: str = "a__1", phase: Phase = "agent", since: float = 0.0) -> Watched:
    return Watched(trial=trial, phase=phase, since=since, limits=LIMITS)


@pytest.mark.parametrize(
    ("phase", "at", "stuck"),
    [
        ("waiting", 1e9, False),
        ("environment", 100.0, False),
        ("environment", 101.0, True),
        ("agent", 101.0, False),
        ("agent", 1001.0, True),
        ("verifier", 200.0, False),
        ("verifier", 201.0, True),
    ],
)
def test_stuck_trials__each_phase_by_its_own_limit(phase: Phase, at: float, stuck: bool) -> None:
    assert bool(stuck_trials([watched(phase=phase)], at)) is stuck


def test_stuck_trials__longest_overdue_first_with_a_reason() -> None:
    found = stuck_trials(
        [watched("a", since=900.0), watched("b", since=0.0), watched("c", since=1500.0)], 2000.0
    )
    assert [item.trial for item in found] == ["b", "a"]
    assert found[0].reason == "no progress: 33m 20s in the agent phase, limit 16m 40s"


def test_phase_limits__harbors_own_and_the_margin() -> None:
    task = TaskInfo(
        name="t", directory="", agent_timeout=900.0, verifier_timeout=300.0, build_timeout=50.0
    )
    assert phase_limits(task, multiplier=4.0, margin=10.0) == PhaseLimits(
        environment=50 + AGENT_SETUP_TIMEOUT + 10, agent=3610.0, verifier=310.0
    )
    bare = phase_limits(TaskInfo(name="t", directory=""), cap=60.0, margin=0.0)
    assert bare == PhaseLimits(
        environment=BUILD_TIMEOUT + AGENT_SETUP_TIMEOUT, agent=60.0, verifier=VERIFIER_TIMEOUT
    )


def view(**changes: Any) -> HarborView:
    values: dict[str, Any] = {
        "at": 10_000.0, "started_at": 0.0, "heard_at": 9_999.0, "trials": [watched()],
        "ordered": {},
    }  # fmt: skip
    return HarborView(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"trials": []}, None),
        ({"heard_at": 10_000.0 - SILENCE}, None),
        ({"heard_at": 9_999.0 - SILENCE}, "Harbor has been silent for 5m 1s"),
        ({"heard_at": None, "started_at": 10_000.0 - START_UP}, None),
        ({"heard_at": None, "started_at": 9_999.0 - START_UP},
         "Harbor started no trial within 30m 1s"),
        ({"ordered": {"a__1": 10_000.0 - CANCEL_GRACE}}, None),
        ({"ordered": {"a__1": 9_999.0 - CANCEL_GRACE}},
         "Harbor did not end the trial a__1 within 3m 1s of being told to"),
        ({"ordered": {"ended__2": 0.0}}, None),
    ],
)  # fmt: skip
def test_harbor_hung__table(changes: dict[str, Any], reason: str | None) -> None:
    assert harbor_hung(view(**changes)) == reason
