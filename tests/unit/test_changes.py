from __future__ import annotations

import pytest

from tbh_action.comparison.changes import CHANGES, Tally, change_of, changes, coverage, tally
from tests.factories import results, row


def of(outcome: str | None) -> Tally | None:
    """`"ppf"` → three attempts, two passed; None → the task is not in the run."""
    if outcome is None:
        return None
    scored = [letter for letter in outcome if letter != "e"]
    return Tally(planned=len(outcome), scored=len(scored), passed=scored.count("p"))


@pytest.mark.parametrize(
    ("ours", "theirs", "change"),
    [
        ("p", "p", "same_pass"),
        ("f", "f", "still_failing"),
        ("p", "f", "fixed"),
        ("f", "p", "broken"),
        ("e", "p", "newly_unscored"),
        ("e", "f", "newly_unscored"),
        ("p", "e", "newly_scored"),
        ("f", "e", "newly_scored"),
        ("e", "e", "unscored"),
        ("p", None, "only_ours"),
        ("e", None, "only_ours"),
        (None, "p", "only_theirs"),
        # Several attempts: at least half of the scored ones.
        ("pppff", "ppppp", "same_pass"),
        ("ppfff", "pppff", "broken"),
        ("pf", "ff", "fixed"),
        ("pfe", "fff", "fixed"),
        ("eee", "ppp", "newly_unscored"),
        ("fff", "pff", "still_failing"),
    ],
)
def test_change_of__table(ours: str | None, theirs: str | None, change: str) -> None:
    assert change_of(of(ours), of(theirs)) == change


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("p", "passed"),
        ("f", "failed"),
        ("e", "errored"),
        ("ppf", "2 of 3 passed"),
        ("pfe", "1 of 3 passed, 1 errored"),
        ("eee", "0 of 3 passed, 3 errored"),
    ],
)
def test_words__of_a_task(outcome: str, words: str) -> None:
    item = of(outcome)
    assert item is not None
    assert item.words == words


def test_tally__groups_attempts_by_task() -> None:
    document = results([row("a"), row("b", "errored"), row("a", "failed", 2)])
    assert tally(document) == {
        "a": Tally(planned=2, scored=2, passed=1),
        "b": Tally(planned=1, scored=0, passed=0),
    }


def test_coverage__counts_trials() -> None:
    assert coverage(tally(results("ppfe")).values()) == 0.75
    assert coverage(tally(results("ppe fff")).values()) == pytest.approx(5 / 6)
    assert coverage([]) == 0.0


def test_changes__names_every_task_of_either_run_once() -> None:
    ours = tally(results([row("both"), row("new"), row("z", "failed"), row("a", "failed")]))
    theirs = tally(results([row("both"), row("gone"), row("z"), row("a")]))
    found = changes(ours, theirs)
    assert [(r["task"], r["change"]) for r in found] == [
        ("a", "broken"),
        ("z", "broken"),
        ("new", "only_ours"),
        ("gone", "only_theirs"),
        ("both", "same_pass"),
    ]
    assert found[2] == {"task": "new", "change": "only_ours", "ours": "passed", "theirs": None}
    assert {r["change"] for r in found} <= set(CHANGES)
