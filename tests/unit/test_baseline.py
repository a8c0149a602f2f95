from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tbh_action.comparison.baseline import (
    Baseline,
    baseline_or_reason,
    check_baseline,
    choose,
    commit_of,
    find_baseline,
)
from tbh_action.comparison.earlier import Earlier, EarlierRun
from tbh_action.errors import SpecError
from tests.factories import results, write

OURS = results(
    "ppff",
    name="ours",
    started_at="2026-08-10T00:00:00Z",
    finished_at="2026-08-10T09:00:00Z",
    revision="3333333333cc",
)


def earlier_run(name: str, day: int, outcomes: str = "ppff", **changes: Any) -> EarlierRun:
    document = results(
        outcomes,
        name=name,
        started_at=f"2026-08-{day:02}T00:00:00Z",
        finished_at=f"2026-08-{day:02}T09:00:00Z",
        **changes,
    )
    return EarlierRun(results=document, source=f"runs/{name}/results.json")


A = earlier_run("a", 1, "pppf", revision="1111111111aa")
B = earlier_run("b", 3, "pfff", revision="2222222222bb")
C = earlier_run("c", 2, "ppff", revision="1111111111aa")
OTHER_MODEL = earlier_run("other", 4, fields={"model.name": "org/other"})
OTHER_WAY = earlier_run("way", 5, fields={"max_call": 60.0}, revision="5555555555ee")
INCOMPLETE = earlier_run("half", 6, complete=False)
LATER = earlier_run("later", 12, revision="4444444444dd")


def chosen(*runs: EarlierRun, wanted: str = "latest", ours: Any = OURS) -> Baseline:
    return choose(Earlier(runs=runs), ours, wanted=wanted, place="runs")


def name_of(found: Baseline) -> str | None:
    return found.run.name if found.run else None


def test_choose__latest_by_date_not_by_order() -> None:
    found = chosen(A, B, C)
    assert name_of(found) == "b"
    assert found.why == (
        "It is the latest of 3 earlier results of this model that are complete and measured as "
        "this run was."
    )


def test_choose__best_by_score_then_by_date() -> None:
    assert name_of(chosen(B, A, C, wanted="best")) == "a"
    twin = earlier_run("twin", 2, "pppf")
    assert name_of(chosen(twin, A, wanted="best")) == "twin"


@pytest.mark.parametrize("other", [OTHER_MODEL, OTHER_WAY, INCOMPLETE, LATER])
@pytest.mark.parametrize("wanted", ["latest", "best"])
def test_choose__passes_over(other: EarlierRun, wanted: str) -> None:
    found = chosen(other, A, wanted=wanted)
    assert name_of(found) == "a"
    assert "1 earlier result of this model that is complete" in found.why


def test_choose__is_never_the_run_itself() -> None:
    itself = EarlierRun(results=OURS, source="runs/ours/results.json")
    assert name_of(chosen(itself)) is None
    assert name_of(chosen(itself, A)) == "a"


def test_choose__another_measurement_rather_than_none_and_says_so() -> None:
    found = chosen(OTHER_WAY, OTHER_MODEL)
    assert name_of(found) == "way"
    assert found.why.endswith("none was measured as this run was.")
    assert found.history == (OTHER_MODEL,)


def test_choose__an_incomplete_run_rather_than_none_and_says_so() -> None:
    found = chosen(INCOMPLETE)
    assert name_of(found) == "half"
    assert "is incomplete but measured" in found.why


def test_choose__unknown_conditions_are_like_no_others() -> None:
    silent = earlier_run("silent", 5, fingerprint_fields={})
    assert name_of(chosen(silent, A)) == "a"
    assert chosen(silent, ours=OURS | {"fingerprint_fields": {}}).why.endswith(
        "none was measured as this run was."
    )


def test_choose__the_first_run_of_a_model() -> None:
    found = chosen(OTHER_MODEL)
    assert found.run is None
    assert found.why == "runs holds no earlier results of org/model."
    assert chosen().run is None


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("2222222222bb", "b"),
        ("2222", "b"),
        ("1111111111aa", "c"),
        ("a", "a"),
        ("later", "later"),
        ("way", "way"),
    ],
)
def test_choose__by_revision_or_name(wanted: str, name: str) -> None:
    found = chosen(A, B, C, LATER, OTHER_WAY, wanted=wanted)
    assert name_of(found) == name
    assert found.why == f"It was asked for by name: {wanted}."


def test_choose__of_one_revision_the_run_that_was_measured_alike() -> None:
    other = earlier_run("other", 9, fields={"max_call": 60.0}, revision="2222222222bb")
    assert name_of(chosen(B, other, wanted="2222")) == "b"


@pytest.mark.parametrize("wanted", ["222", "9999", "bb"])
def test_choose__unknown_revision_lists_what_there_is(wanted: str) -> None:
    with pytest.raises(SpecError, match="it has 1111111111aa, 2222222222bb"):
        chosen(A, B, C, wanted=wanted)
    with pytest.raises(SpecError, match="it has none at all"):
        chosen(wanted=wanted)


def test_commit_of__model_revision_then_the_ci_commit() -> None:
    assert commit_of(results(revision="abc")) == "abc"
    assert commit_of(results(revision=None, provenance={"commit": "def"})) == "def"
    assert commit_of(results(revision=None, provenance={"commit": None})) is None
    assert commit_of(results(revision=None, provenance=[])) is None


def test_document__says_which_run_it_is() -> None:
    assert chosen(A).document() == {
        "name": "a",
        "source": "runs/a/results.json",
        "commit": "1111111111aa",
        "date": "2026-08-01T09:00:00Z",
        "fingerprint": "f" * 64,
        "why": chosen(A).why,
    }


def test_find_baseline__a_file_is_meant_whatever_it_holds(tmp_path: Path) -> None:
    path = write(tmp_path / "old.json", OTHER_MODEL.results)
    found = find_baseline(str(path), OURS)
    assert name_of(found) == "other"
    assert found.why == "It is the file that was given."


def test_find_baseline__in_a_directory_with_a_choice(tmp_path: Path) -> None:
    for run in (A, B, C):
        write(tmp_path / run.name / "results.json", run.results)
    write(tmp_path / "broken/results.json", {"schema_version": 7})
    assert name_of(find_baseline(str(tmp_path), OURS)) == "b"
    assert name_of(find_baseline(f"{tmp_path}#best", OURS)) == "a"
    found = find_baseline(f"{tmp_path}#1111", OURS)
    assert name_of(found) == "c"
    assert len(found.history) == 3
    assert "broken/results.json" in found.problems[0]


def test_baseline_or_reason__keeps_the_reason_instead_of_raising(tmp_path: Path) -> None:
    lost = baseline_or_reason(str(tmp_path / "absent"), OURS)
    assert lost.run is None
    assert lost.unavailable
    assert lost.why.startswith("There is nothing at")
    write(tmp_path / "a/results.json", A.results)
    found = baseline_or_reason(str(tmp_path), OURS)
    assert found == find_baseline(str(tmp_path), OURS)
    assert not found.unavailable
    assert baseline_or_reason(f"{tmp_path}#nothing", OURS).unavailable


def test_check_baseline__of_the_place_alone(tmp_path: Path) -> None:
    check_baseline(str(tmp_path))
    check_baseline(f"{tmp_path}#1234")
    with pytest.raises(SpecError, match="There is nothing at"):
        check_baseline(f"{tmp_path}/absent#latest")
