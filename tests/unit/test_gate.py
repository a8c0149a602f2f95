from __future__ import annotations

from typing import Any

import pytest

from tbh_action.comparison.compare import compare
from tbh_action.comparison.gate import FailOn, Gate, Policy, decide, parse_fail_on
from tbh_action.errors import SpecError
from tests.factories import results, row

BASELINE = {"name": "run-0", "source": "x", "commit": None, "date": None, "why": "w"}
GOOD, DROP, WORSE = "p" * 89, "fff" + "p" * 86, "f" * 9 + "p" * 80


def gate(
    ours: Any,
    theirs: Any = None,
    fail_on: str = "regression",
    flaky: tuple[str, ...] = (),
    **policy: Any,
) -> Gate:
    ours = ours if isinstance(ours, dict) else results(ours)
    comparison = None
    if theirs is not None:
        theirs = theirs if isinstance(theirs, dict) else results(theirs)
        comparison = compare(ours, theirs, baseline=BASELINE)
    return decide(ours, comparison, Policy(fail_on=parse_fail_on(fail_on), **policy), flaky=flaky)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("regression", FailOn(kind="regression")),
        (" any-drop ", FailOn(kind="any-drop")),
        ("never", FailOn(kind="never")),
        ("below:0.55", FailOn(kind="below", threshold=0.55)),
        ("below: 55%", FailOn(kind="below", threshold=0.55)),
        ("below:0", FailOn(kind="below", threshold=0.0)),
        ("below:1", FailOn(kind="below", threshold=1.0)),
    ],
)
def test_parse_fail_on__known(text: str, expected: FailOn) -> None:
    assert parse_fail_on(text) == expected
    assert parse_fail_on(str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    ["", "regressions", "below", "below:", "below:55", "below:-0.1", "below:nan", "below:x", "%"],
)
def test_parse_fail_on__unknown(text: str) -> None:
    with pytest.raises(SpecError, match=r"give regression, any-drop, below:0\.55 or never"):
        parse_fail_on(text)


@pytest.mark.parametrize(
    ("fail_on", "ours", "theirs", "code"),
    [
        ("regression", GOOD, GOOD, 0),
        ("regression", DROP, GOOD, 0),
        ("regression", WORSE, GOOD, 1),
        ("regression", GOOD, WORSE, 0),
        ("regression", GOOD, None, 0),
        ("regression", "e" * 20 + "p" * 69, GOOD, 4),
        ("regression", "e" * 20 + "p" * 69, None, 4),
        ("regression", GOOD, "e" * 20 + "p" * 69, 4),
        ("any-drop", GOOD, GOOD, 0),
        ("any-drop", DROP, GOOD, 1),
        ("any-drop", WORSE, GOOD, 1),
        ("any-drop", GOOD, DROP, 0),
        ("any-drop", "e" * 20 + "f" * 69, GOOD, 4),
        ("never", WORSE, GOOD, 0),
        ("never", "e" * 89, None, 0),
        ("below:0.5", WORSE, GOOD, 0),
        ("below:0.95", WORSE, None, 1),
        ("below:0.95", "e" * 5 + "p" * 84, None, 1),
        ("below:0.95", "e" * 20 + "p" * 69, None, 4),
        ("below:0.75", "e" * 20 + "p" * 69, None, 4),
        ("below:0.5", [], None, 4),
    ],
)
def test_decide__exit_code(fail_on: str, ours: str, theirs: str | None, code: int) -> None:
    decision = gate(ours, theirs, fail_on)
    assert decision.exit_code == code
    assert decision.failed is (code == 1)
    assert decision.fail_on == fail_on


def test_decide__below_is_met_at_equality() -> None:
    assert gate("p" * 11 + "f" * 9, fail_on="below:0.55").exit_code == 0
    assert gate("p" * 10 + "f" * 10, fail_on="below:0.55").reasons == (
        "10 of 20 planned trials passed, below 55.0%.",
    )


@pytest.mark.parametrize("fail_on", ["regression", "any-drop", "below:0.1"])
def test_decide__unclassified_failures_block_green(fail_on: str) -> None:
    tasks = [row(f"t{n}") for n in range(20)]
    tasks[3] |= {"status": "errored", "class": "unclassified"}
    decision = gate(results(tasks), GOOD if fail_on != "below:0.1" else None, fail_on)
    assert decision.exit_code == 4
    assert not decision.failed
    assert any(
        reason.startswith("1 failure of no known class") and "t3" in reason
        for reason in decision.reasons
    )


def test_decide__unclassified_but_scored_blocks_as_well() -> None:
    tasks = [row(f"t{n}") for n in range(20)]
    tasks[3] |= {"class": "unclassified"}
    assert gate(results(tasks)).exit_code == 4


def test_decide__bad_news_wins_over_doubt() -> None:
    ours = results(WORSE)
    ours["tasks"][80]["class"] = "unclassified"
    decision = gate(ours, GOOD)
    assert (decision.exit_code, decision.failed) == (1, True)
    assert len(decision.reasons) == 2


def test_decide__incomplete_run_is_no_green() -> None:
    decision = gate(results(GOOD, complete=False, stop_reason="the budget was spent"), GOOD)
    assert decision.exit_code == 4
    assert "The run is incomplete: the budget was spent." in decision.reasons


def test_decide__not_comparable_is_no_answer() -> None:
    decision = gate(results(GOOD, fields={"max_call": 1.0}), GOOD)
    assert decision.exit_code == 4
    assert decision.reasons == ("The two runs were not measured alike: max_call differs.",)


def test_decide__never_still_lists_the_doubts() -> None:
    decision = gate("e" * 20 + "p" * 69, GOOD, "never")
    assert decision.exit_code == 0
    assert "below the floor" in decision.reasons[0]


def test_decide__coverage_floor_is_configurable_and_met_at_equality() -> None:
    ours = "e" * 20 + "p" * 60
    assert gate(ours, coverage_floor=0.75).exit_code == 0
    assert gate(ours, coverage_floor=0.76).exit_code == 4


def test_decide__an_empty_shard_is_no_doubt() -> None:
    assert gate("").exit_code == 0
    assert gate(results("", complete=False)).exit_code == 4
    assert gate("", fail_on="below:0.5").exit_code == 4


def test_decide__says_when_there_was_nothing_to_compare_with() -> None:
    assert gate(GOOD).reasons == ("There was no earlier run to compare with.",)
    assert gate(GOOD, fail_on="never").reasons == ()


@pytest.mark.parametrize(
    ("fail_on", "code"), [("regression", 4), ("any-drop", 4), ("never", 0), ("below:0.5", 0)]
)
def test_decide__a_baseline_that_cannot_be_read_is_no_green(fail_on: str, code: int) -> None:
    policy = Policy(fail_on=parse_fail_on(fail_on))
    decision = decide(results(GOOD), None, policy, lost_baseline="The store can't be read.")
    assert decision.exit_code == code
    assert not decision.failed
    assert ("The store can't be read." in decision.reasons) == (fail_on != "below:0.5")


def test_decide__flaky_tasks_are_named_and_still_count() -> None:
    flaky = ("org/task-001", "org/task-003", "org/task-089")
    decision = gate(WORSE, GOOD, flaky=flaky)
    assert decision == gate(WORSE, GOOD, flaky=flaky)
    assert decision.exit_code == gate(WORSE, GOOD).exit_code == 1
    assert decision.reasons[-1] == (
        "2 of 9 broken tasks passed and failed in earlier runs under the same conditions too; "
        "they count all the same: org/task-001, org/task-003."
    )


def test_decide__long_lists_of_names_are_cut_with_a_count() -> None:
    ours = results("p" * 20)
    for item in ours["tasks"][:7]:
        item["class"] = "unclassified"
    assert "org/task-005 and 2 more." in gate(ours).reasons[0]


def test_document__is_what_results_json_holds() -> None:
    assert gate(WORSE, GOOD).document() == {
        "fail_on": "regression",
        "failed": True,
        "exit_code": 1,
        "reasons": list(gate(WORSE, GOOD).reasons),
    }
