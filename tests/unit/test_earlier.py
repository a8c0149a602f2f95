from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tbh_action.comparison.earlier import (
    EarlierRun,
    find_results,
    instant_of,
    read_earlier,
    read_results,
)
from tbh_action.errors import SpecError
from tests.factories import results, write


def test_read_results__drops_the_bulk_and_keeps_what_is_compared(tmp_path: Path) -> None:
    document = results("pfe", timeline={"trials": [1] * 100})
    document["tasks"][0] |= {"log_tail": "x" * 1000, "message": "m"}
    found = read_results(write(tmp_path / "results.json", document))
    assert "timeline" not in found
    assert found["tasks"] == results("pfe")["tasks"]
    assert found["fingerprint_fields"] == document["fingerprint_fields"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema_version": 2}, "schema_version is 2, not 1"),
        ({"schema_version": None}, "schema_version is None"),
        ({"run": None}, "no 'run' object"),
        ({"model": []}, "no 'model' object"),
        ({"fingerprint_fields": []}, "no 'fingerprint_fields' object"),
        ({"tasks": {}}, "no list of tasks"),
        ({"tasks": ["t"]}, "a task without a name"),
        ({"tasks": [{"task": 3, "status": "passed"}]}, "a task without a name"),
        ({"tasks": [{"task": "t", "status": "great"}]}, "task 't' has the status 'great'"),
        ({"tasks": [{"task": "t", "status": []}]}, r"task 't' has the status \[\]"),
    ],
)
def test_read_results__says_what_is_wrong(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    path = write(tmp_path / "results.json", results() | change)
    with pytest.raises(SpecError, match=problem):
        read_results(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"null", b"\xff\xfe{}", b'{"a": NaN}', b"[" * 100_000, b'"text"'],
)
def test_read_results__unreadable_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"results\.json"):
        read_results(path)


def test_read_earlier__a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "any-name.json", results())
    found = read_earlier(str(path))
    assert found.single
    assert [run.source for run in found.runs] == [str(path)]


def test_read_earlier__a_run_directory_means_its_results(tmp_path: Path) -> None:
    write(tmp_path / "results.json", results())
    write(tmp_path / "harbor/results.json", results(name="planted"))
    found = read_earlier(str(tmp_path))
    assert found.single
    assert [run.name for run in found.runs] == ["run-1"]


def test_read_earlier__a_directory_of_runs_with_broken_files(tmp_path: Path) -> None:
    write(tmp_path / "b/results.json", results(name="b"))
    write(tmp_path / "2026/a/results.json", results(name="a"))
    write(tmp_path / "later/results.json", results() | {"schema_version": 9})
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/results.json").write_text('{"schema_version": 1, "ru', encoding="utf-8")
    found = read_earlier(str(tmp_path))
    assert not found.single
    assert [run.name for run in found.runs] == ["a", "b"]
    assert found.runs[0].source == f"{tmp_path}/2026/a/results.json"
    assert len(found.problems) == 2
    assert "later/results.json is no results.json of ours" in found.problems[0]
    assert "torn/results.json can't be read as JSON" in found.problems[1]


def test_read_earlier__nothing_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="There is nothing at"):
        read_earlier(str(tmp_path / "absent"))
    assert read_earlier(str(tmp_path)).runs == ()


def test_read_earlier__no_name_of_a_dataset() -> None:
    with pytest.raises(SpecError, match="no name of a dataset"):
        read_earlier("hf://datasets/a/b/c")


def test_find_results__never_looks_into_a_run(tmp_path: Path) -> None:
    write(tmp_path / "done/results.json", {})
    write(tmp_path / "done/harbor/job/t__1/agent/results.json", {})
    write(tmp_path / "running/spec.json", {})
    write(tmp_path / "running/harbor/job/t__1/agent/results.json", {})
    write(tmp_path / ".cache/x/results.json", {})
    assert list(find_results(tmp_path)) == [tmp_path / "done/results.json"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-08-01T10:00:00+02:00", "2026-08-01T08:00:01Z"),
        ("2026-08-01T10:00:00", "2026-08-01T10:00:01Z"),
        (None, "1970-01-01T00:00:00Z"),
        ("yesterday", "1970-01-01"),
        (5, "1970-01-01"),
    ],
)
def test_instant_of__compares_as_instants(earlier: Any, later: str) -> None:
    assert instant_of(earlier) < instant_of(later)


def test_earlier_run__falls_back_where_a_file_is_poor() -> None:
    document = results(name=None, finished_at=None, started_at=None, revision=None)
    run = EarlierRun(results=document, source="here")
    assert (run.name, run.revision, run.date) == ("here", "", None)
