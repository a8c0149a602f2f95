from __future__ import annotations

from tbh_action.comparison.baseline import Baseline
from tbh_action.comparison.earlier import EarlierRun
from tbh_action.comparison.gate import Policy, parse_fail_on
from tbh_action.comparison.judge import Judgement, judged
from tests.factories import results

JUDGEMENT = Judgement()


def baseline(outcomes: str = "p" * 20, **changes: object) -> Baseline:
    run = EarlierRun(results=results(outcomes, name="old"), source="runs/old/results.json")
    values = {"run": run, "why": "It was given.", "history": (run,)} | changes
    return Baseline(**values)  # type: ignore[arg-type]


def test_judged__without_a_baseline_has_a_gate_and_no_comparison() -> None:
    document = judged(results("p" * 20), None, JUDGEMENT)
    assert document["comparison"] is None
    assert document["gate"]["exit_code"] == 0
    assert document["flaky"] == []


def test_judged__fills_in_comparison_gate_and_flaky_and_leaves_the_input_alone() -> None:
    ours = results("f" * 8 + "p" * 12)
    before = repr(ours)
    history = tuple(
        EarlierRun(results=results(outcomes), source="x") for outcomes in ("f" + "p" * 19, "p" * 20)
    )
    document = judged(ours, baseline(history=history), JUDGEMENT)
    assert document["comparison"]["verdict"] == "regression"
    assert document["comparison"]["baseline"]["name"] == "old"
    assert document["gate"]["exit_code"] == 1
    assert document["flaky"] == ["org/task-001"]
    assert "1 of 8 broken tasks" in document["gate"]["reasons"][-1]
    assert repr(ours) == before


def test_judged__again_gives_the_same_document() -> None:
    found = baseline(problems=("x/results.json can't be read.",))
    once = judged(results("p" * 20, warnings=["first"]), found, JUDGEMENT)
    assert once["warnings"] == ["first", "x/results.json can't be read."]
    assert judged(once, found, JUDGEMENT) == once


def test_judged__an_empty_store_is_said_and_is_green() -> None:
    found = baseline(run=None, why="runs holds no earlier results of org/model.", history=())
    document = judged(results("p" * 20), found, JUDGEMENT)
    assert document["comparison"] is None
    assert document["gate"]["exit_code"] == 0
    assert document["warnings"] == [
        "Nothing was compared: runs holds no earlier results of org/model."
    ]


def test_judged__a_lost_baseline_keeps_the_results_and_is_no_green() -> None:
    lost = Baseline(run=None, why="The store can't be read.", unavailable=True)
    document = judged(results("p" * 20), lost, JUDGEMENT)
    assert document["comparison"] is None
    assert document["gate"]["exit_code"] == 4
    assert document["gate"]["reasons"] == ["The store can't be read."]
    assert document["warnings"] == ["Nothing was compared: The store can't be read."]


def test_judged__policy_is_used() -> None:
    judgement = Judgement(policy=Policy(fail_on=parse_fail_on("below:0.9")))
    assert judged(results("f" * 8 + "p" * 12), None, judgement)["gate"]["exit_code"] == 1
