from __future__ import annotations

from typing import Any

from tbh_action.github.annotations import choose, headline


def results(**changes: Any) -> dict[str, Any]:
    return {
        "run": {"complete": True},
        "counts": {"planned": 89, "passed": 53, "failed": 16, "errored": 20},
        "rates": {"all": 53 / 89},
        "tasks": [],
        "comparison": None,
        "gate": None,
        "warnings": [],
    } | changes


def test_headline__says_the_seeds_figures() -> None:
    assert headline(results()) == "53 of 89 passed (59.6 %), 16 failed, 20 errored"
    assert headline(results(rates={"all": None})).startswith("53 of 89 passed, ")


def test_choose__a_good_run_is_one_notice() -> None:
    (only,) = choose(results())
    assert (only.level, only.title) == ("notice", "Terminal-Bench")


def test_choose__a_failed_gate_comes_first_then_what_broke() -> None:
    broken = [
        {"task": f"t{n}", "change": "broken", "theirs": "passed", "ours": "failed"}
        for n in range(30)
    ]
    chosen = choose(
        results(
            gate={"failed": True, "reasons": ["6 tasks worse, p = 0.03"]},
            comparison={"verdict": "regression", "tasks": broken, "reason": "worse"},
        )
    )
    assert [item.level for item in chosen] == ["error"] * 10
    assert chosen[0].title == "Terminal-Bench: the gate failed"
    assert "p = 0.03" in chosen[0].message
    assert chosen[1].message == "t0: passed → failed"
    assert chosen[-1].message == "22 more: see the report."


def test_choose__unclassified_failures_come_before_warnings() -> None:
    rows = [
        {"task": "t", "class": "unclassified", "exception": "OddError", "reason": "a\n::error::b"}
    ]
    chosen = choose(results(tasks=rows, warnings=[f"w{n}" for n in range(20)]))
    warnings = [item for item in chosen if item.level == "warning"]
    assert len(warnings) == 10
    assert warnings[0].message == "t: OddError – a ::error::b"
    assert warnings[-1].message == "12 more: see the report."


def test_choose__an_incomplete_run_is_a_warning_with_its_reason() -> None:
    (only,) = choose(results(run={"complete": False, "stop_reason": "time budget reached"}))
    assert (only.level, "time budget reached" in only.message) == ("warning", True)


def test_choose__a_flip_without_a_failed_gate_is_no_error() -> None:
    row = {"task": "t", "change": "broken", "theirs": "passed", "ours": "failed"}
    chosen = choose(results(comparison={"verdict": "inconclusive", "tasks": [row]}))
    assert [item.level for item in chosen] == ["warning"]


def test_choose__empty_results_do_not_crash() -> None:
    assert choose({})[0].message.startswith("0 of 0 passed")
