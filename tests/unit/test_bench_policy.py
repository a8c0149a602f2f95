"""The simulation behind the constants of `concurrency`: its model is fitted as it says, and the
product's decisions keep their advantage in it (the goals themselves take 200 seeds)."""

from __future__ import annotations

import random
import statistics
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import policy
from policy_model import (
    MULTIPLIER,
    N_TASKS,
    TIMED_OUT,
    TIMEOUTS,
    Ended,
    Sandboxes,
    Task,
    World,
    draw_tasks,
    hazard,
)

CALM = World(errors_at_3=1e-9, errors_at_8=1e-9, slowdown=0.0)


def test_draw_tasks__timeouts_and_their_share() -> None:
    drawn = [draw_tasks(random.Random(seed), World()) for seed in range(100)]
    assert len(drawn[0]) == N_TASKS == sum(TIMEOUTS.values())
    late = statistics.fmean(t.work > t.timeout * MULTIPLIER for tasks in drawn for t in tasks)
    assert late == pytest.approx(TIMED_OUT, abs=0.02)


@pytest.mark.parametrize(("at_once", "errors"), [(3, 0.10), (8, 0.70)])
def test_hazard__gives_the_two_points(at_once: int, errors: float) -> None:
    """A queue that is always full, as the fit supposes."""
    world, rng = World(), random.Random(1)
    boxes = Sandboxes(world=world, rng=rng)
    tasks = [task for seed in range(12) for task in draw_tasks(random.Random(seed), world)]
    ended: list[Ended] = []
    while tasks:
        while len(boxes.running) < at_once:
            boxes.start(tasks.pop() if tasks else draw_tasks(rng, world)[0])
        end = boxes.step()
        assert end is not None
        ended.append(end)
    share = statistics.fmean(end.outcome == "infrastructure" for end in ended)
    assert share == pytest.approx(errors, abs=0.04)


@pytest.mark.parametrize("shape", ["power", "exponential", "cliff 5"])
def test_hazard__goes_through_both_points(shape: str) -> None:
    base, other = World(), World(shape=shape)
    assert hazard(other, 3) == pytest.approx(hazard(base, 3))
    assert hazard(other, 8) == pytest.approx(hazard(base, 8))
    rates = [hazard(other, running) for running in range(1, 9)]
    assert rates == sorted(rates)


def test_sandboxes__time_and_work_by_hand() -> None:
    boxes = Sandboxes(world=CALM, rng=random.Random(1))
    boxes.start(Task(name="a", timeout=1.0, work=0.5, weakness=1.0))
    boxes.start(Task(name="b", timeout=1.0, work=99.0, weakness=1.0))
    first, second = boxes.step(), boxes.step()
    assert first is not None
    assert second is not None
    assert (first.task.name, first.outcome) == ("a", "scored")
    assert (second.task.name, second.outcome) == ("b", "timeout")
    assert boxes.now == pytest.approx(0.05 + 4.0)
    assert boxes.sandbox_hours == pytest.approx(0.55 + 4.05)
    assert boxes.step(until=9.0) is None
    assert boxes.now == 9.0


@pytest.fixture(scope="module")
def base() -> dict[str, list[policy.Outcome]]:
    return policy.simulate(World(), range(12))


def test_simulate__ours_against_the_others(base: dict[str, list[policy.Outcome]]) -> None:
    ratios = {name: ratio for name, ratio, *_ in policy.goals(base)}
    assert ratios["GPU-hours, ours / hand"] < 0.68
    assert ratios["GPU-hours, ours / fixed 3"] < 0.95
    assert ratios["unscored, ours / hand"] < 0.5


def test_simulate__nothing_is_free(base: dict[str, list[policy.Outcome]]) -> None:
    """Each run takes at least its work, and pays the server for as long as trials run."""
    for outcomes in base.values():
        for outcome in outcomes:
            assert outcome.gpu > outcome.sandbox / 8
            assert outcome.attempts >= N_TASKS
            assert 1 <= outcome.passes <= 4
    for outcome in base["ours"] + base["fixed 3"]:
        assert outcome.gpu > outcome.makespan


def test_simulate__is_repeatable(base: dict[str, list[policy.Outcome]]) -> None:
    assert policy.simulate(World(), range(1))["ours"][0] == base["ours"][0]


def test_hand__without_faults_needs_no_repair() -> None:
    world = World(errors_at_3=1e-9, errors_at_8=1e-9, server_life=1e6, gap_median=0.0)
    outcome = policy.Hand(draw_tasks(random.Random(1), world), world, random.Random(1)).run()
    assert (outcome.passes, outcome.unscored, outcome.attempts) == (1, 0, N_TASKS)
    assert outcome.gpu == pytest.approx(outcome.makespan)
