from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbh_action.harbor.tasks import TaskInfo
from tbh_action.policy.hardware import Flavor
from tbh_action.policy.plan import (
    HISTORY_SLACK,
    HOSTED_LEG,
    SANDBOX_LIFE,
    earlier_seconds,
    make_plan,
    problems,
)
from tbh_action.policy.plan_text import render
from tbh_action.policy.schedule import OVERHEAD
from tbh_action.spec import RunSpec, validate_spec

FLAVORS = {
    "h200": Flavor(name="h200", usd_per_minute=0.1, cpus=23, memory_mb=262_144),
    "cpu-basic": Flavor(name="cpu-basic", usd_per_minute=0.001, cpus=2, memory_mb=16_384),
}
SERVER = {"image": "i", "flavor": "h200", "port": 8000, "command": ["serve"], "timeout": "4h"}


def spec(**changes: Any) -> RunSpec:
    document: dict[str, Any] = {
        "model": {"name": "org/model"},
        "server": SERVER,
        "benchmark": {"name": "b", "repo": "https://hub.example/datasets/o/b"},
        "n_concurrent": 4,
    }
    return validate_spec(document | changes)


def task(name: str = "demo/a", **changes: Any) -> TaskInfo:
    values: dict[str, Any] = {
        "directory": "", "docker_image": "image", "cpus": 1, "memory_mb": 2048,
        "agent_timeout": 900.0, "verifier_timeout": 900.0,
    }  # fmt: skip
    return TaskInfo(name=name, **(values | changes))


def test_problems__none() -> None:
    assert problems(spec(), [task()], FLAVORS) == []
    assert problems(spec(), [task(cpus=2, memory_mb=16_384)], FLAVORS) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"docker_image": None}, "hf-sandbox can't run demo/a: no prebuilt docker_image"),
        ({"compose": True}, "hf-sandbox can't run demo/a: needs docker compose"),
        ({"gpus": 1}, "hf-sandbox can't run demo/a: needs a GPU"),
        ({"cpus": 4}, "cpu-basic has 2 CPUs, too few for demo/a (up to 4)"),
        ({"memory_mb": 32_768}, "has 16 GB of memory, too little for demo/a (up to 32 GB)"),
    ],
)
def test_problems__each_cause(changes: dict[str, Any], words: str) -> None:
    (line,) = problems(spec(), [task(**changes), task("demo/b")], FLAVORS)
    assert words in line
    assert "--e" in line  # what helps: --exclude-task or --ek flavor


def test_problems__one_line_a_cause_however_many_tasks() -> None:
    (line,) = problems(spec(), [task(f"demo/{n}", gpus=1) for n in range(60)], FLAVORS)
    assert "demo/5 and 54 more" in line


def test_problems__other_environments_judge_for_themselves() -> None:
    assert problems(spec(environment={"type": "docker"}), [task(gpus=8)], FLAVORS) == []


def test_problems__an_unknown_flavor_is_not_too_small() -> None:
    assert problems(spec(), [task(cpus=64)], {}) == []
    unknown = {"cpu-basic": Flavor(name="cpu-basic", usd_per_minute=None)}
    assert problems(spec(), [task(cpus=64)], unknown) == []


def test_make_plan__by_hand() -> None:
    """Eight trials of 900 s at 4: low a quarter of it and a load of 5 minutes; high the whole at 3
    and the longest after it, and a load of 10."""
    plan = make_plan(spec(), [task(f"t{n}") for n in range(8)], FLAVORS)
    low, high = 225 + OVERHEAD, 900 + OVERHEAD
    assert plan.basis == "the tasks' own timeouts"
    assert plan.seconds.low == pytest.approx(2 * low + 300)
    assert plan.seconds.high == pytest.approx(8 * high / 3 + high * 2 / 3 + 600)
    assert plan.cost is not None
    assert plan.cost.low == pytest.approx((plan.seconds.low * 0.1 + 8 * low * 0.001) / 60)
    assert plan.cost.high == pytest.approx((plan.seconds.high * 0.1 + 8 * high * 0.001) / 60)
    assert (plan.servers.low, plan.servers.high, plan.legs.high) == (1, 1, 1)
    assert not plan.too_long


def test_make_plan__attempts_multiply() -> None:
    plan = make_plan(spec(n_attempts=5), [task()], FLAVORS)
    assert (plan.n_tasks, plan.n_trials) == (1, 5)


def results(*rows: tuple[str, str, Any, int]) -> dict[str, Any]:
    keys = ("task", "status", "seconds", "superseded")
    return {"tasks": [dict(zip(keys, row, strict=True)) for row in rows]}


def test_earlier_seconds__scored_trials_only() -> None:
    found = earlier_seconds(
        results(
            ("a", "passed", 100.0, 0),
            ("a", "failed", 300.0, 1),
            ("b", "errored", 50.0, 1),
            ("c", "passed", None, 0),
            ("d", "passed", float("nan"), 0),
            ("e", "passed", -1, 0),
        )
    )
    assert found == ({"a": 200.0}, pytest.approx(2 / 6))
    assert earlier_seconds({}) == ({}, 0.0)


def test_make_plan__earlier_run() -> None:
    history = results(("t0", "passed", 400.0, 0), ("t1", "passed", 99_999.0, 0))
    tasks = [task("t0"), task("t1"), task("t2")]
    plan = make_plan(spec(n_concurrent=1), tasks, FLAVORS, history=history)
    worst = 900 + 900 + OVERHEAD
    assert plan.basis == "an earlier run for 2 of 3 tasks, timeouts for the rest"
    assert plan.seconds.low == pytest.approx(400 + worst + 225 + OVERHEAD + 300)
    assert plan.seconds.high == pytest.approx(400 * HISTORY_SLACK + worst + 900 + OVERHEAD + 600)
    assert make_plan(spec(), tasks[:2], FLAVORS, history=history).basis == "an earlier run"


def test_make_plan__too_long_for_a_leg_and_what_helps() -> None:
    tasks = [task("long", agent_timeout=12_000.0), task("short")]
    plan = make_plan(spec(agent_timeout_multiplier=4.0), tasks, FLAVORS)
    (item,) = plan.too_long
    assert (item.task, item.where) == ("long", "what a leg has for it")
    assert plan.max_agent_time is not None
    assert "--max-agent-time" in render(plan)
    capped = spec(
        agent_timeout_multiplier=4.0,
        agent={"name": "terminus-2", "max_time": plan.max_agent_time},
    )
    assert not make_plan(capped, tasks, FLAVORS).too_long
    wider = capped.model_copy(
        update={"agent": capped.agent.model_copy(update={"max_time": plan.max_agent_time + 60})}
    )
    assert make_plan(wider, tasks, FLAVORS).too_long


def test_make_plan__longer_than_a_sandbox_lives() -> None:
    plan = make_plan(spec(), [task(agent_timeout=90_000.0)], FLAVORS, time_budget=400_000.0)
    (item,) = plan.too_long
    assert (item.where, item.limit) == ("a sandbox's life", SANDBOX_LIFE)


def test_make_plan__unknown_price() -> None:
    plan = make_plan(spec(), [task()], {})
    assert plan.cost is None
    assert plan.warnings == (
        "The price of h200 is unknown, so the cost is too.",
        "The price of cpu-basic is unknown, so the cost is too.",
    )


def test_make_plan__endpoint_costs_no_server() -> None:
    plan = make_plan(spec(server=None, endpoint="http://x/v1"), [task()], FLAVORS)
    assert plan.servers.high == 0
    assert plan.cost is not None
    assert plan.cost.high == pytest.approx((900 + OVERHEAD) * 0.001 / 60)


def test_render__whole() -> None:
    plan = make_plan(
        spec(agent_timeout_multiplier=4.0),
        [task("demo/long", agent_timeout=12_000.0), task("demo/gpu", gpus=1)],
        FLAVORS,
    )
    assert render(plan) == (
        "2 trials of 2 tasks, by the tasks' own timeouts\n"
        "  time     3h 28m to 13h 54m\n"
        "  legs     1 to 3 of 5h 30m\n"
        "  servers  1 to 4, one after another\n"
        "  cost     $21.02 to $84.27\n"
        "\n"
        "Can't run here:\n"
        "  - hf-sandbox can't run demo/gpu: needs a GPU. Leave out with --exclude-task.\n"
        "\n"
        "May take longer than fits:\n"
        "  - demo/long: up to 13h 38m, what a leg has for it is 5h 15m\n"
        "\n"
        "What helps:\n"
        "  - --max-agent-time 1h14m makes every task fit (and changes the result)\n"
        "  - a self-hosted runner (5 days a job): --time-budget 110h\n"
        "  - `tbh submit`: the controller runs as a job on the Hub, without legs\n"
    )


@given(
    st.lists(
        st.builds(
            task,
            agent_timeout=st.none() | st.floats(1, 1e5),
            verifier_timeout=st.none() | st.floats(1, 1e5),
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 12),
    st.integers(1, 3),
    st.floats(60, 1e6),
)
def test_make_plan__low_is_never_above_high(
    tasks: list[TaskInfo], concurrent: int, attempts: int, leg: float
) -> None:
    plan = make_plan(
        spec(n_concurrent=concurrent, n_attempts=attempts), tasks, FLAVORS, time_budget=leg
    )
    assert plan.cost is not None
    for pair in (plan.seconds, plan.legs, plan.servers, plan.cost):
        assert 0 < pair.low <= pair.high
    assert plan.leg == leg
    assert render(plan).endswith("\n")


def test_hosted_leg__fits_a_hosted_job() -> None:
    assert HOSTED_LEG <= 6 * 3600 - 1800
