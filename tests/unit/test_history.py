from __future__ import annotations

from typing import Any

import pytest

from tbh_action.comparison.earlier import EarlierRun
from tbh_action.comparison.history import flaky_tasks, trend
from tbh_action.comparison.stats import cluster_rate, wilson
from tests.factories import results


def run(outcomes: str, day: int = 1, name: str = "run", **changes: Any) -> EarlierRun:
    document = results(outcomes, name=name, finished_at=f"2026-08-{day:02}T09:00:00Z", **changes)
    return EarlierRun(results=document, source=name)


def test_trend__one_series_for_what_was_measured_alike_oldest_first() -> None:
    runs = [
        run("pppf", 5, "new", revision="2"),
        run("ppff", 1, "old", revision="1"),
        run("p", 3, "strict", fields={"max_call": 1.0}),
    ]
    found = trend(runs)
    assert [[p.name for p in s.points] for s in found] == [["strict"], ["old", "new"]]
    assert found[0].conditions != found[1].conditions


def test_trend__counts_come_from_the_rows() -> None:
    point = trend([run("ppfe", counts={"planned": 1, "passed": 1}, cost={"total_usd": 1.5})])[
        0
    ].points[0]
    assert (point.passed, point.scored, point.planned) == (2, 3, 4)
    assert point.rate_all == 0.5
    assert point.interval_all == wilson(2, 4)
    assert point.rate_scored == pytest.approx(2 / 3)
    assert point.interval_scored == wilson(2, 3)
    assert point.total_usd == 1.5


def test_trend__several_attempts_have_clustered_intervals() -> None:
    point = trend([run("ppf fff pee")])[0].points[0]
    expected_all, expected_scored = (
        cluster_rate([2, 0, 1], [3, 3, 3]),
        cluster_rate([2, 0, 1], [3, 3, 1]),
    )
    assert expected_all is not None
    assert expected_scored is not None
    assert point.interval_all == expected_all.interval
    assert point.interval_scored == expected_scored.interval


def test_trend__nothing_scored_and_nothing_planned() -> None:
    nothing, empty = trend([run("ee"), run("", 2)])[0].points
    assert (nothing.rate_all, nothing.rate_scored, nothing.interval_scored) == (0.0, None, (0, 1))
    assert (empty.rate_all, empty.interval_all) == (None, (0.0, 1.0))


def test_trend__of_one_model() -> None:
    runs = [run("p"), run("p", name="other", fields={"model.name": "org/other"})]
    assert [p.name for s in trend(runs, model="org/other") for p in s.points] == ["other"]
    assert trend(runs, model="org/unknown") == []


def test_flaky_tasks__need_both_outcomes_with_everything_the_same() -> None:
    runs = [run("ppfe", 1), run("pffp", 2), run("fppp", 3, revision="another")]
    assert flaky_tasks(runs) == [{"task": "org/task-002", "passed": 1, "failed": 1}]


def test_flaky_tasks__attempts_of_one_run_count() -> None:
    assert flaky_tasks([run("ppf ppp fee pfe")]) == [
        {"task": "org/task-001", "passed": 2, "failed": 1},
        {"task": "org/task-004", "passed": 1, "failed": 1},
    ]


def test_flaky_tasks__runs_that_do_not_say_how_they_were_measured_prove_nothing() -> None:
    assert flaky_tasks([run("p", fingerprint_fields={}), run("f", fingerprint_fields={})]) == []
