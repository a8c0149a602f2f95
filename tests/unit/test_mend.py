"""Harbor's torn files: what is put right, and that nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trials import document, put

from tbh_action.harbor.mend import mend

TORN = ["", "{", '{"a": ', "[]", "\x00" * 100]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A whole job with one trial that ended and one that did not."""
    job = tmp_path / "harbor" / "job"
    ended = put(job, "t__aaaaaaa", document(config={"trial_name": "t__aaaaaaa"}))
    put(job, "t__bbbbbbb", None)
    for path, text in (
        (job / "config.json", '{"job_name": "job", "defaults": 1}'),
        (job / "lock.json", '{"trials": []}'),
        (job / "result.json", '{"n_total_trials": 1}'),
        (ended / "config.json", '{"trial_name": "t__aaaaaaa"}'),
        (tmp_path / "harbor-job.json", '{"job_name": "job"}'),
    ):
        path.write_text(text, encoding="utf-8")
    return job


def tree(job: Path) -> dict[str, str]:
    return {
        str(path.relative_to(job)): path.read_text(encoding="utf-8")
        for path in job.rglob("*")
        if path.is_file()
    }


def config_of(job: Path) -> Path:
    return job.parents[1] / "harbor-job.json"


def test_mend__a_whole_job_stays_as_it_is(job: Path) -> None:
    before = tree(job)
    assert mend(job, config_of(job)) == []
    assert tree(job) == before


@pytest.mark.parametrize("text", TORN)
def test_mend__totals_and_lock_are_computed_anew(job: Path, text: str) -> None:
    before = tree(job)
    for name in ("result.json", "lock.json"):
        (job / name).write_text(text, encoding="utf-8")
        del before[name]
    assert mend(job, config_of(job)) == ["result.json", "lock.json"]
    assert tree(job) == before


@pytest.mark.parametrize("text", TORN)
def test_mend__the_config_comes_from_what_harbor_was_given(job: Path, text: str) -> None:
    before = tree(job)
    (job / "config.json").write_text(text, encoding="utf-8")
    assert mend(job, config_of(job)) == ["config.json"]
    assert tree(job) == before | {"config.json": '{"job_name": "job"}'}


@pytest.mark.parametrize("text", TORN)
def test_mend__a_trials_config_comes_from_its_result(job: Path, text: str) -> None:
    (job / "t__aaaaaaa" / "config.json").write_text(text, encoding="utf-8")
    assert mend(job, config_of(job)) == ["t__aaaaaaa/config.json"]
    assert json.loads(tree(job)["t__aaaaaaa/config.json"]) == {"trial_name": "t__aaaaaaa"}


def test_mend__what_cannot_be_mended_stays(job: Path) -> None:
    config_of(job).write_text("{", encoding="utf-8")
    (job / "config.json").write_text("{", encoding="utf-8")
    (job / "t__aaaaaaa" / "result.json").write_text("{", encoding="utf-8")
    (job / "t__aaaaaaa" / "config.json").write_text("{", encoding="utf-8")
    before = tree(job)
    assert mend(job, config_of(job)) == []
    assert tree(job) == before


def test_mend__no_job_yet(tmp_path: Path) -> None:
    assert mend(tmp_path / "none", tmp_path / "c.json") == []


def test_mend__links_are_not_followed(job: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text("{", encoding="utf-8")
    (job / "result.json").unlink()
    (job / "result.json").symlink_to(tmp_path / "outside.json")
    (job / "x__ccccccc").symlink_to(tmp_path)
    assert mend(job, config_of(job)) == []
    assert (tmp_path / "outside.json").read_text(encoding="utf-8") == "{"
