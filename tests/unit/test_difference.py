from __future__ import annotations

import pytest

from tbh_action.comparison import difference
from tbh_action.comparison.changes import tally
from tbh_action.comparison.difference import Difference, paired_difference
from tbh_action.comparison.stats import Estimate
from tests.factories import results


def of(ours: str, theirs: str, alpha: float = 0.05) -> Difference:
    return paired_difference(tally(results(ours)), tally(results(theirs)), alpha=alpha)


def test_paired_difference__one_scored_attempt_each_is_mcnemar() -> None:
    assert of("ppfe", "pfff").test == "exact McNemar"
    assert of("ppfe", "pfff").n_pairs == 3


def test_paired_difference__one_scored_of_several_attempts_is_mcnemar_too() -> None:
    assert of("pe fe pe", "pe pe fe").test == "exact McNemar"


def test_paired_difference__more_attempts_on_either_side_are_permuted() -> None:
    assert of("p f p", "pp ff pf").test == "paired permutation"
    assert of("p f p", "pp ff pf").estimate == of("pp ff pp", "pp ff pf").estimate


def test_paired_difference__no_pairs() -> None:
    nothing = of("ee", "pp")
    assert (nothing.n_pairs, nothing.p_value, nothing.estimate) == (0, 1.0, None)
    assert nothing.document()["difference"]["interval"] is None


def test_paired_difference__both_powers_agree_where_they_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = "f" * 60 + "p" * 940, "p" * 60 + "f" * 50 + "p" * 890
    exact = of(ours, theirs).detectable
    monkeypatch.setattr(difference, "_EXACT_POWER_TASKS", 0)
    assert of(ours, theirs).detectable == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize(
    ("value", "p_value", "expected"),
    [
        (-0.05, 0.04, True),
        (-0.05, 0.05, True),
        (-0.05, 0.051, False),
        (-0.019, 0.01, False),
        (-0.02, 0.01, True),
        (0.05, 0.01, False),
        (0.0, 1.0, False),
    ],
)
def test_is_drop__needs_direction_significance_and_size(
    value: float, p_value: float, expected: bool
) -> None:
    found = Difference(
        n_pairs=89,
        test="t",
        p_value=p_value,
        estimate=Estimate(value=value, interval=(-1.0, 1.0)),
        method="m",
        detectable=None,
    )
    assert found.is_drop(alpha=0.05, min_effect=0.02) is expected
