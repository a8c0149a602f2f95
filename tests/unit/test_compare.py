from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tbh_action.comparison.changes import CHANGES
from tbh_action.comparison.compare import Criteria, compare
from tests.factories import results, row

BASELINE = {
    "name": "run-0",
    "source": "runs/run-0/results.json",
    "commit": "1111",
    "date": "2026-07-01T00:00:00Z",
    "fingerprint": "f",
    "why": "It is the file that was given.",
}


def compared(ours: Any, theirs: Any, **criteria: Any) -> dict[str, Any]:
    ours = ours if isinstance(ours, dict) else results(ours)
    theirs = theirs if isinstance(theirs, dict) else results(theirs)
    return compare(ours, theirs, baseline=BASELINE, criteria=Criteria(**criteria))


def test_compare__same_results() -> None:
    found = compared("p" * 50 + "f" * 39, "p" * 50 + "f" * 39)
    assert found["verdict"] == "pass"
    assert found["comparable"]
    assert not found["forced"]
    assert found["baseline"] == BASELINE
    assert found["counts"] == dict.fromkeys(CHANGES, 0) | {"same_pass": 50, "still_failing": 39}
    assert found["test"] == {"name": "exact McNemar", "p_value": 1.0, "n_pairs": 89}
    assert found["difference"]["value"] == 0.0
    assert found["reason"] == (
        "The pass rate did not change (95 % interval -2.2 to +2.2; exact McNemar test over "
        "89 tasks, p = 1.00); a drop of less than 8.7 points could have been missed."
    )


def test_compare__regression() -> None:
    found = compared("f" * 9 + "p" * 41 + "f" * 39, "p" * 50 + "f" * 39)
    assert found["verdict"] == "regression"
    assert found["difference"]["value"] == pytest.approx(-9 / 89)
    assert found["test"]["p_value"] == pytest.approx(2 / 512)
    assert found["counts"]["broken"] == 9
    assert found["reason"].startswith("The pass rate fell by 10.1 points (95 % interval -")
    assert found["reason"].endswith("exact McNemar test over 89 tasks, p = 0.0039).")


def test_compare__improvement_is_no_regression() -> None:
    found = compared("p" * 50 + "f" * 39, "f" * 9 + "p" * 41 + "f" * 39)
    assert found["verdict"] == "pass"
    assert found["counts"]["fixed"] == 9
    assert found["reason"].startswith("The pass rate rose by 10.1 points")


def test_compare__insignificant_drop_passes_and_says_what_it_could_miss() -> None:
    found = compared("fff" + "p" * 86, "p" * 89)
    assert found["verdict"] == "pass"
    assert found["test"]["p_value"] == 0.25
    assert f"less than {100 * found['smallest_detectable_drop']:.1f} points" in found["reason"]


@pytest.mark.parametrize(
    ("min_effect", "verdict"),
    [(0.0, "regression"), (0.02, "regression"), (0.021, "pass"), (0.5, "pass")],
)
def test_compare__min_effect_is_reached_at_equality(min_effect: float, verdict: str) -> None:
    # 10 of 500 tasks broke: exactly 2 points, p = 0.002.
    found = compared("f" * 10 + "p" * 490, "p" * 500, min_effect=min_effect)
    assert found["verdict"] == verdict
    if verdict == "pass":
        assert f"less than the {100 * min_effect:.1f} points that matter" in found["reason"]


@pytest.mark.parametrize(("alpha", "verdict"), [(0.04, "regression"), (0.03, "pass")])
def test_compare__alpha_decides(alpha: float, verdict: str) -> None:
    # 6 broken, none fixed: p = 2 / 64 = 0.03125.
    found = compared("f" * 6 + "p" * 83, "p" * 89, alpha=alpha)
    assert found["verdict"] == verdict
    assert f"{100 * (1 - alpha):g} % interval" in found["reason"]


def test_compare__coverage_below_the_floor_is_inconclusive_even_with_a_drop() -> None:
    ours, theirs = "e" * 10 + "f" * 20 + "p" * 59, "p" * 89
    found = compared(ours, theirs)
    assert found["verdict"] == "inconclusive"
    assert found["reason"] == (
        "This run scored 88.8% of its planned trials, below the floor of 90.0%."
    )
    assert found["test"]["n_pairs"] == 79
    assert compared(theirs, ours)["reason"].startswith("The baseline scored 88.8%")
    assert compared(ours, theirs, coverage_floor=0.88)["verdict"] == "regression"


def test_compare__unscored_trials_cannot_hide_a_drop() -> None:
    # 8 tasks that passed have no score now: coverage is above the floor, the pairs see nothing.
    found = compared("e" * 8 + "p" * 81, "p" * 89)
    assert found["verdict"] == "inconclusive"
    assert found["difference"]["value"] == 0.0
    assert found["counts"]["newly_unscored"] == 8
    assert "if the trials without a score had failed" in found["reason"]
    # Where they failed before as well, they can't hide one.
    assert compared("e" * 8 + "p" * 81, "f" * 8 + "p" * 81)["verdict"] == "pass"


@pytest.mark.parametrize(("n", "verdict"), [(5, "inconclusive"), (6, "pass")])
def test_compare__too_few_pairs_for_any_significance(n: int, verdict: str) -> None:
    found = compared("p" * n, "p" * n)
    assert found["verdict"] == verdict
    if verdict == "inconclusive":
        assert found["smallest_detectable_drop"] is None
        assert found["reason"].startswith("Only 5 tasks scored in both runs: too few")


def test_compare__no_common_task() -> None:
    found = compared([row(f"a{n}") for n in range(9)], [row(f"b{n}") for n in range(9)])
    assert found["verdict"] == "inconclusive"
    assert found["reason"] == "No task was scored in both runs."
    assert found["difference"] == {
        "value": None,
        "interval": None,
        "method": "Newcombe 1998, method 10",
    }
    assert found["counts"]["only_ours"] == found["counts"]["only_theirs"] == 9


def test_compare__another_release_of_the_model_is_comparable() -> None:
    other = {"server.image": "engine:2", "model.name": "org/model-v2"}
    found = compared(results("p" * 9, revision="22", fields=other), "p" * 9)
    assert found["comparable"]
    assert found["differing_fields"] == []
    assert [change["field"] for change in found["model_changes"]] == [
        "model.name",
        "model.revision",
        "server.image",
    ]


def test_compare__measured_differently() -> None:
    other = {
        "agent_timeout_multiplier": 1.0,
        "n_attempts": 5,
        "benchmark.revision": "c",
        "max_call": 9,
    }
    found = compared(results("f" * 9, fields=other), "p" * 9)
    assert found["verdict"] == "not_comparable"
    assert not found["comparable"]
    assert not found["forced"]
    assert found["differing_fields"][0] == {
        "field": "agent_timeout_multiplier",
        "ours": 1.0,
        "theirs": 4.0,
    }
    assert found["reason"] == (
        "The two runs were not measured alike: agent_timeout_multiplier, benchmark.revision, "
        "max_call and 1 more differ."
    )


def test_compare__forced_says_so_and_keeps_the_list() -> None:
    found = compared(results("f" * 9, fields={"max_call": 9.0}), "p" * 9, force=True)
    assert found["verdict"] == "regression"
    assert not found["comparable"]
    assert found["forced"]
    assert [item["field"] for item in found["differing_fields"]] == ["max_call"]
    assert found["reason"].startswith("Compared anyway, so no figure here is safe: the pass rate")


def test_compare__force_changes_nothing_where_it_is_not_needed() -> None:
    assert compared("pf" * 9, "p" * 18, force=True) == compared("pf" * 9, "p" * 18)


def test_compare__results_that_do_not_say_how_they_were_measured() -> None:
    silent = results("p" * 9, fingerprint_fields={})
    assert compared(silent, "p" * 9)["reason"].startswith("The results of this run do not say")
    found = compared("p" * 9, silent)
    assert found["verdict"] == "not_comparable"
    assert found["reason"].startswith("The results of the baseline do not say")


def test_compare__several_attempts_use_all_of_them() -> None:
    ours = " ".join(["pff"] * 8 + ["ppp"] * 8)
    theirs = " ".join(["ppf"] * 8 + ["ppp"] * 8)
    found = compared(ours, theirs)
    assert found["test"] == {"name": "paired permutation", "p_value": 2 / 256, "n_pairs": 16}
    assert found["difference"]["value"] == pytest.approx(-1 / 6)
    assert found["verdict"] == "regression"
    assert found["counts"]["broken"] == 8
    assert found["tasks"][0]["ours"] == "1 of 3 passed"


LETTERS = st.lists(st.sampled_from(["pp", "pf", "ff", "pe", "ee"]), min_size=0, max_size=15)


@settings(deadline=None)
@given(LETTERS, LETTERS)
def test_compare__invariants(ours: list[str], theirs: list[str]) -> None:
    def document(groups: list[str]) -> dict[str, Any]:
        status = {"p": "passed", "f": "failed", "e": "errored"}
        return results(
            [
                row(f"t{number}", status[letter], attempt)
                for number, group in enumerate(groups)
                for attempt, letter in enumerate(group, 1)
            ]
        )

    found = compared(document(ours), document(theirs), coverage_floor=0.0)
    assert sum(found["counts"].values()) == len(found["tasks"]) == max(len(ours), len(theirs))
    assert 0.0 < found["test"]["p_value"] <= 1.0
    assert found["verdict"] in ("pass", "regression", "inconclusive")
    assert found["reason"].endswith(".")
    json.dumps(found, allow_nan=False)
    back = compared(document(theirs), document(ours), coverage_floor=0.0)
    assert back["test"] == found["test"]
    assert not (found["verdict"] == back["verdict"] == "regression")
