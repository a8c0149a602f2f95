"""A run at work as files that can be sent away again and again."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from tbh_action.detached import snapshot
from tbh_action.detached.snapshot import ChangedError
from tbh_action.errors import SpecError
from tbh_action.harbor import archive
from tbh_action.rundir import RunDir
from tbh_action.scoring import ledger
from tbh_action.scoring.ledger import Attempt


def run_with(tmp_path: Path, *trials: str) -> RunDir:
    run_dir = RunDir(tmp_path / "night")
    run_dir.harbor_job.mkdir(parents=True)
    run_dir.spec.write_text("{}", encoding="utf-8")
    (run_dir.root / ".lock").write_text("process 1", encoding="utf-8")
    (run_dir.harbor_job / "config.json").write_text('{"n": 1}', encoding="utf-8")
    for trial in trials:
        add_trial(run_dir, trial)
    return run_dir


def add_trial(run_dir: RunDir, trial: str, *, recorded: bool = True) -> Path:
    directory = run_dir.harbor_job / trial
    (directory / "agent").mkdir(parents=True)
    (directory / "result.json").write_text('{"reward": 1}', encoding="utf-8")
    (directory / "agent/log.bin").write_bytes(bytes(range(256)))
    if recorded:
        attempt = Attempt(
            task=trial.split("__", maxsplit=1)[0],
            trial=trial,
            failure_class="none",
            scored=True,
            retryable=False,
        )
        ledger.append_attempts(run_dir.attempts, [attempt])
    return directory


def put(files: dict[str, bytes], folder: Path) -> None:
    """What a store does with the files of a snapshot."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def content(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_take__and_restore_give_the_same_run_without_what_has_not_ended(tmp_path: Path) -> None:
    run_dir = run_with(tmp_path, "a__1", "b__2")
    running = add_trial(run_dir, "c__3", recorded=False)
    (run_dir.harbor_job / "a__1/link").symlink_to("/etc/passwd")
    put(dict(snapshot.take(run_dir, {}).files), tmp_path / "store")
    again = RunDir(tmp_path / "again")
    assert snapshot.restore(tmp_path / "store", again)
    wanted = content(run_dir.root)
    for name in [*wanted]:
        if name == ".lock" or name.endswith("/link") or running.name in name:
            del wanted[name]
    assert content(again.root) == wanted
    assert snapshot.stamps_of(again) == {
        "a__1": snapshot.stamp_of(again.harbor_job / "a__1"),
        "b__2": snapshot.stamp_of(again.harbor_job / "b__2"),
    }


def test_take__sends_each_trial_once_and_knows_where_it_went(tmp_path: Path) -> None:
    run_dir = run_with(tmp_path, "a__1")
    first = snapshot.take(run_dir, {})
    put(dict(first.files), tmp_path / "store")
    archive.archive_trials(run_dir, 1, ["a__1"])
    add_trial(run_dir, "b__2")
    second = snapshot.take(run_dir, first.stamps)
    assert "trials/a__1.tar.gz" not in second.files
    assert "trials/b__2.tar.gz" in second.files
    put(dict(second.files), tmp_path / "store")
    again = RunDir(tmp_path / "again")
    assert snapshot.restore(tmp_path / "store", again)
    assert archive.find_trial(again, "a__1") == again.archive(1) / "a__1"
    assert archive.find_trial(again, "b__2") == again.harbor_job / "b__2"
    # A restored run sends nothing that is there already.
    third = snapshot.take(again, snapshot.stamps_of(again))
    assert set(third.files) == {"state.tar", "index.json"}


def test_take__same_run_same_bytes(tmp_path: Path) -> None:
    run_dir = run_with(tmp_path, "a__1")
    first = snapshot.take(run_dir, {}).files
    for path in run_dir.root.rglob("*"):
        os.utime(path, (1, 1))
    assert snapshot.take(run_dir, {}).files == first


def test_take__a_trial_that_grew_is_sent_again(tmp_path: Path) -> None:
    run_dir = run_with(tmp_path, "a__1")
    first = snapshot.take(run_dir, {})
    (run_dir.harbor_job / "a__1/trial.log").write_text("late", encoding="utf-8")
    assert "trials/a__1.tar.gz" in snapshot.take(run_dir, first.stamps).files


def test_take__half_written_file_asks_for_another_try(tmp_path: Path) -> None:
    run_dir = run_with(tmp_path, "a__1")
    (run_dir.harbor_job / "result.json").write_text('{"n_total', encoding="utf-8")
    with pytest.raises(ChangedError, match=r"harbor/job/result\.json is being written"):
        snapshot.take(run_dir, {})
    # A Harbor that was killed leaves it so for good: that must not end all snapshots.
    assert "state.tar" in snapshot.take(run_dir, {}, lenient=True).files


def test_take__torn_last_line_of_the_ledger(tmp_path: Path) -> None:
    run_dir = run_with(tmp_path, "a__1")
    with run_dir.attempts.open("a", encoding="utf-8") as file:
        file.write('{"task": "b", "tri')
    files = snapshot.take(run_dir, {}).files
    assert json.loads(files["index.json"])["trials"] == {"a__1": "harbor/job/a__1"}


def test_restore__nothing_stored(tmp_path: Path) -> None:
    assert not snapshot.restore(tmp_path, RunDir(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["/etc/x", "../x", "harbor/../../x", ""])
def test_restore__place_outside_of_the_run(tmp_path: Path, place: str) -> None:
    run_dir = run_with(tmp_path, "a__1")
    files = dict(snapshot.take(run_dir, {}).files)
    files["index.json"] = json.dumps({"version": 1, "trials": {"a__1": place}}).encode()
    put(files, tmp_path / "store")
    with pytest.raises(SpecError, match="outside of it"):
        snapshot.restore(tmp_path / "store", RunDir(tmp_path / "again"))


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ({"version": 2, "trials": {}}, "another version"),
        ({"version": 1, "trials": {"gone__9": "harbor/job/gone__9"}}, "damaged"),
        ([], "damaged"),
    ],
)
def test_restore__damaged(tmp_path: Path, index: object, words: str) -> None:
    files = dict(snapshot.take(run_with(tmp_path), {}).files)
    files["index.json"] = json.dumps(index).encode()
    put(files, tmp_path / "store")
    with pytest.raises(SpecError, match=words):
        snapshot.restore(tmp_path / "store", RunDir(tmp_path / "again"))


def test_restore__archive_that_leaves_its_place(tmp_path: Path) -> None:
    put(dict(snapshot.take(run_with(tmp_path), {}).files), tmp_path / "store")
    with tarfile.open(tmp_path / "store/state.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("../escaped"))
    with pytest.raises(SpecError, match="damaged"):
        snapshot.restore(tmp_path / "store", RunDir(tmp_path / "again"))
    assert not (tmp_path / "escaped").exists()
