"""Who counts when a task has several trials, and that every slot is counted once."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials import at, attempt, broken

from tbh_action.scoring.combine import combine
from tbh_action.scoring.ledger import Attempt
from tbh_action.scoring.outcomes import (
    Plan,
    first_pass,
    name_tasks,
    outcomes,
    plan_from_lock,
    plan_of,
    unplanned,
)
from tbh_action.scoring.results import RunFacts, build, dumps
from tbh_action.scoring.scores import figures

TASKS = ["demo/a", "demo/b", "demo/c"]


def _winner(*attempts: Attempt, slots: int = 1) -> str | None:
    (row,) = outcomes(plan_of(["demo/t"], slots), attempts)
    return row.winner.trial if row.winner else None


def test_outcomes__a_scored_trial_outranks_a_later_unscored_one() -> None:
    assert _winner(attempt("won", finished_at=at(1)), broken("lost", finished_at=at(9))) == "won"


def test_outcomes__the_latest_of_equals_wins() -> None:
    old, new = attempt("old", finished_at=at(1)), attempt("new", reward=0.0, finished_at=at(2))
    assert _winner(old, new) == "new"
    assert _winner(broken("x", finished_at=at(3)), broken("y", finished_at=at(2))) == "x"


def test_outcomes__no_end_is_the_oldest() -> None:
    ended = attempt("ended", finished_at=datetime(1990, 1, 1, tzinfo=UTC))
    assert _winner(attempt("endless", finished_at=None), ended) == "ended"


def test_outcomes__ties_do_not_depend_on_the_order() -> None:
    tied = [attempt("a"), attempt("b"), attempt("c")]
    assert _winner(*tied) == _winner(*reversed(tied)) == "c"


def test_outcomes__a_missing_trial_is_a_row() -> None:
    (row,) = outcomes(plan_of(["demo/t"], 1), [])
    assert (row.status, row.failure_class, row.winner) == ("errored", "missing", None)
    assert row.reason


def test_outcomes__each_task_has_its_slots() -> None:
    tries = [attempt(f"t{n}", finished_at=at(n)) for n in range(3)]
    tries.append(broken("lost", finished_at=at(9)))
    rows = outcomes(plan_of(["demo/t"], 4), tries)
    assert [row.winner.trial if row.winner else None for row in rows] == ["t0", "t1", "t2", "lost"]
    rows = outcomes(plan_of(["demo/t"], 3), tries)
    assert [len(row.superseded) for row in rows] == [0, 0, 1]


def test_outcomes__a_task_that_nobody_planned_does_not_count() -> None:
    plan = plan_of(["demo/a"], 1)
    assert len(outcomes(plan, [attempt(task="demo/z")])) == 1
    assert unplanned(plan, [attempt(task="demo/z")]) == ["demo/z"]
    unsure = Plan(slots={"demo/a": 1}, sure=False)
    assert len(outcomes(unsure, [attempt(task="demo/z")])) == 2
    assert unplanned(unsure, [attempt(task="demo/z")]) == []


def test_first_pass__is_the_first_trial_that_was_not_interrupted() -> None:
    plan = plan_of(["demo/t"], 1)
    tries = [
        broken("stopped", failure_class="interrupted", finished_at=at(1)),
        broken("lost", finished_at=at(2)),
        attempt("won", finished_at=at(3)),
    ]
    assert first_pass(plan, tries) == 0
    assert first_pass(plan, [tries[0], tries[2]]) == 1


def test_plan_from_lock__takes_the_organisation_from_the_trials() -> None:
    ran = attempt(task="org/fix-git", lock_name="fix-git", source="tb")
    plan = plan_from_lock([("fix-git", "tb"), ("never-ran", "tb")], [ran], 1)
    assert plan == Plan(slots={"org/fix-git": 1, "org/never-ran": 1}, sure=True)


def test_plan_from_lock__counts_entries_as_slots() -> None:
    plan = plan_from_lock([("a", None)] * 5 + [("b", None)] * 5, [], 5)
    assert plan.slots == {"a": 5, "b": 5}


def test_plan_from_lock__two_organisations_share_a_name() -> None:
    ran = [
        attempt("1", task="x/same", lock_name="same", source="one"),
        attempt("2", task="y/same", lock_name="same", source="two"),
    ]
    plan = plan_from_lock([("same", "one"), ("same", "two")], ran, 1)
    assert plan.slots == {"x/same": 1, "y/same": 1}


def test_plan_from_lock__without_a_lock_the_trials_are_all_that_is_known() -> None:
    unreadable = broken("u", task="cut", task_from="the directory's name")
    plan = plan_from_lock(None, [attempt(task="org/a"), unreadable], 2)
    assert plan == Plan(slots={"org/a": 2}, sure=False)


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ("org/fix-git", "org/fix-git"),
        ("fix-git", "org/fix-git"),
        ("repair-the-distributed-database-", "org/repair-the-distributed-database-index-b"),
        ("nobody-knows", "nobody-knows"),
    ],
)
def test_name_tasks__completes_what_a_directory_tells(found: str, named: str) -> None:
    long = "org/repair-the-distributed-database-index-"
    plan = plan_of(["org/fix-git", f"{long}a", f"{long}b"], 1)
    unreadable = broken("u", task=found, task_from="the directory's name")
    done = name_tasks([unreadable, attempt("ok", task=f"{long}a")], plan)
    assert done[-1].task == named


# --- properties ---------------------------------------------------------------------------------

INSTANTS = st.none() | st.integers(0, 5).map(at)
CLASSES = ["none", "timeout", "agent"]
LOST = ["infrastructure", "setup", "verifier", "interrupted", "unclassified", "unreadable"]


@st.composite
def _attempts(draw: st.DrawFn) -> list[Attempt]:
    tries = []
    for number in range(draw(st.integers(0, 12))):
        scored = draw(st.booleans())
        tries.append(
            Attempt(
                task=draw(st.sampled_from([*TASKS, "demo/unplanned"])),
                trial=f"t__{number}",
                failure_class=draw(st.sampled_from(CLASSES if scored else LOST)),
                scored=scored,
                retryable=False,
                reward=draw(st.sampled_from([0.0, 0.5, 1.0, 1e308, -1e308])) if scored else None,
                exceptions=draw(st.sampled_from([(), ("SandboxError",), ("AgentTimeoutError",)])),
                started_at=draw(INSTANTS),
                finished_at=draw(INSTANTS),
                agent_started_at=draw(INSTANTS),
                agent_finished_at=draw(INSTANTS),
            )
        )
    return tries


@given(_attempts(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_outcomes__each_slot_is_in_one_bucket_in_any_order(
    tries: list[Attempt], slots: int, order: random.Random
) -> None:
    plan = plan_of(TASKS, slots)
    rows = outcomes(plan, tries)
    assert [(row.task, row.attempt) for row in rows] == [
        (task, number + 1) for task in TASKS for number in range(slots)
    ]
    shuffled = list(tries)
    order.shuffle(shuffled)
    assert outcomes(plan, shuffled) == rows
    assert first_pass(plan, shuffled) == first_pass(plan, tries)
    counts = figures(rows)["counts"]
    assert counts["passed"] + counts["failed"] + counts["errored"] == len(TASKS) * slots
    placed = [a for row in rows for a in (row.winner, *row.superseded) if a]
    assert sorted(a.trial for a in placed) == sorted(a.trial for a in tries if a.task in TASKS)


@given(_attempts(), st.integers(1, 3))
def test_outcomes__counting_again_changes_nothing(tries: list[Attempt], slots: int) -> None:
    plan = plan_of(TASKS, slots)
    rows = outcomes(plan, tries)
    placed = [a for row in rows for a in (*row.superseded, row.winner) if a]
    assert outcomes(plan, [*placed, *placed]) == rows
    winners = [row.winner for row in rows if row.winner]
    assert [row.winner for row in outcomes(plan, winners)] == [row.winner for row in rows]


@given(_attempts(), st.integers(1, 3))
def test_figures__stay_in_range(tries: list[Attempt], slots: int) -> None:
    numbers = figures(outcomes(plan_of(TASKS, slots), tries))
    for rate in (*numbers["rates"].values(), numbers["exceptions_first"]["rate_scored"]):
        assert rate is None or 0 <= rate <= 1
    for name in ("all", "scored"):
        low, high = numbers["intervals"][name]
        rate = numbers["rates"][name]
        assert 0 <= low <= high <= 1
        assert rate is None or low <= rate <= high
    for part in ("pass_at_k", "pass_hat_k"):
        values = [entry["value"] for entry in numbers[part].values()]
        assert all(0 <= value <= 1 for value in values)
        assert values == sorted(values, reverse=part == "pass_hat_k")
    first = numbers["exceptions_first"]
    assert first["passed"] + first["failed"] + first["errored"] == len(TASKS) * slots
    assert first["passed"] <= numbers["counts"]["passed"]


@given(_attempts(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_combine__any_order_of_shards_gives_the_same_bytes(
    tries: list[Attempt], slots: int, order: random.Random
) -> None:
    planned = [a for a in tries if a.task in TASKS]
    whole = build(RunFacts(name="run", n_attempts=slots), plan_of(TASKS, slots), planned)
    shards = [
        build(
            RunFacts(name=f"shard-{task}", n_attempts=slots),
            plan_of([task], slots),
            [a for a in planned if a.task == task],
        )
        for task in TASKS
    ]
    joined = dumps(combine(shards, name="run"))
    order.shuffle(shards)
    assert dumps(combine(shards, name="run")) == joined
    assert dumps(combine([*shards, shards[0]], name="run")) == joined, "a shard given twice"
    merged = combine(shards, name="run")
    for part in ("counts", "rates", "intervals", "mean_reward", "first_pass", "tasks", "seconds"):
        assert merged[part] == whole[part], part
    assert merged["timeline"] == whole["timeline"]
    assert dumps(combine([merged], name="run")) == joined


def test_combine__legs_of_one_run_repeat_what_broke() -> None:
    plan = plan_of(["demo/t"], 1)
    first = build(RunFacts(name="leg-1"), plan, [broken("t__b", finished_at=at(1))])
    second = build(
        RunFacts(name="leg-2"), plan, [broken("t__b", finished_at=at(1)), attempt("t__a")]
    )
    merged = combine([first, second], name="run")
    assert merged["counts"] == {"planned": 1, "passed": 1, "failed": 0, "errored": 0}
    assert merged["tasks"][0]["superseded"] == 1
    assert merged["first_pass"]["passed"] == 0


def test_combine__each_paid_job_is_counted_once_and_to_its_end() -> None:
    plan = plan_of(["demo/t"], 1)

    def leg(seconds: float, usd: float | None) -> dict[str, object]:
        item = {"kind": "server", "job_id": "j", "flavor": "f", "seconds": seconds, "usd": usd}
        return build(RunFacts(name="n", cost={"items": [item]}), plan, [])

    merged = combine([leg(60, 1.0), leg(90, 1.5)], name="run")
    assert merged["cost"]["total_usd"] == 1.5
    assert [item["seconds"] for item in merged["cost"]["items"]] == [90]
    assert combine([leg(60, None)], name="run")["cost"]["total_usd"] is None


def test_outcomes__two_records_of_one_trial_count_once() -> None:
    rows = outcomes(plan_of(["demo/t"], 1), [attempt("a"), replace(attempt("a"), reason="again")])
    assert rows[0].superseded == ()
