"""Trial directories: found where they lie, moved whole, moved back."""

from __future__ import annotations

from pathlib import Path

import pytest
from trials import document, put

from tbh_action.harbor.archive import archive_trials, find_trial, restore
from tbh_action.rundir import RunDir


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    run_dir = RunDir(tmp_path / "run")
    run_dir.harbor_job.mkdir(parents=True)
    return run_dir


def test_archive_trials__moves_whole_directories_and_back(run_dir: RunDir) -> None:
    directory = put(run_dir.harbor_job, "t__a", document())
    (directory / "agent").mkdir()
    (directory / "agent" / "trajectory.json").write_text("{}", encoding="utf-8")
    put(run_dir.harbor_job, "t__b", document())
    moves = archive_trials(run_dir, 1, ["t__a"])
    assert find_trial(run_dir, "t__a") == run_dir.archive(1) / "t__a"
    assert (run_dir.archive(1) / "t__a" / "agent" / "trajectory.json").exists()
    assert find_trial(run_dir, "t__b") == run_dir.harbor_job / "t__b"
    restore(moves)
    restore(moves)
    assert find_trial(run_dir, "t__a") == directory
    assert find_trial(run_dir, "t__z") is None


def test_archive_trials__again_after_a_crash_finishes_the_work(run_dir: RunDir) -> None:
    for name in ("t__a", "t__b"):
        put(run_dir.harbor_job, name, document())
    archive_trials(run_dir, 1, ["t__a"])
    moves = archive_trials(run_dir, 1, ["t__a", "t__b", "t__never"])
    assert [move.source.name for move in moves] == ["t__a", "t__b"]
    assert list(run_dir.harbor_job.iterdir()) == []


def test_archive_trials__never_overwrites(run_dir: RunDir) -> None:
    put(run_dir.archive(1), "t__a", document(reward=0.0))
    put(run_dir.harbor_job, "t__a", document())
    assert archive_trials(run_dir, 1, ["t__a"]) == []
    assert (run_dir.harbor_job / "t__a").exists()
    assert (run_dir.archive(1) / "t__a").exists()
