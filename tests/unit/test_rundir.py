"""A run's directory: what may lie in it, and what a crash or a full disk can do to its files."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tbh_action.errors import NotStartedError, SpecError, TbhError
from tbh_action.rundir import (
    RunDir,
    append_line,
    locked,
    open_run_dir,
    read_lines,
    utc_now,
    write_atomic,
    write_json,
)


def in_child(work: Callable[[], object]) -> str:
    """What `work` raises in a process of its own (`Type: message`), or an empty string."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def run() -> None:
        try:
            work()
            theirs.send("")
        except BaseException as error:  # noqa: BLE001 (told to the parent)
            text = error.message if isinstance(error, TbhError) else str(error)
            theirs.send(f"{type(error).__name__}: {text}")

    process = context.Process(target=run)
    process.start()
    said = str(ours.recv())
    process.join()
    return said


def small_files(limit: int) -> None:
    """From now on this process can write `limit` bytes a file: as on a disk that is full."""
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_open_run_dir__makes_it_with_its_parents(tmp_path: Path) -> None:
    run_dir = open_run_dir(tmp_path / "runs" / "a")
    assert run_dir.root.is_dir()
    assert run_dir.name == "a"


def test_open_run_dir__home_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").touch()
    with pytest.raises(SpecError):
        open_run_dir(Path("~/a"))


@pytest.mark.parametrize(
    "names",
    [
        [".lock", "events.jsonl"],
        [".lock", "events.jsonl", "harbor-question.json", ".state.json.x1y2.new"],
        ["tasks.json", "state.json", ".spec.json.abc.new", ".unpacked.new"],
        ["spec.json", "anything.txt", "report"],
    ],
)
def test_open_run_dir__what_a_kill_left_is_no_stranger(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert open_run_dir(tmp_path).root == tmp_path


@pytest.mark.parametrize("name", ["thesis.tex", "results.json", ".git", "x.new", ".new.txt"])
def test_open_run_dir__foreign_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / name).touch()
    with pytest.raises(SpecError, match="not empty and holds no run") as caught:
        open_run_dir(tmp_path)
    assert name in caught.value.message
    assert (tmp_path / name).exists()


def test_open_run_dir__a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(SpecError, match="is a file"):
            open_run_dir(root)


@pytest.mark.parametrize("root", [Path("/proc/run"), Path("x" * 300)])
def test_open_run_dir__what_the_system_refuses(root: Path) -> None:
    with pytest.raises(NotStartedError, match=r"cannot be used: .*give another") as caught:
        open_run_dir(root)
    assert "\n" not in caught.value.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_open_run_dir__somebody_elses_directory(tmp_path: Path, mode: int) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(0o755)
        if parent == Path("/tmp"):
            break
    root = tmp_path / "run"
    root.mkdir()
    root.chmod(mode)

    def work() -> None:
        os.setuid(65_534)
        with locked(open_run_dir(root)):
            pass

    said = in_child(work)
    assert said.startswith(f"NotStartedError: The run directory {root} cannot be used: Permission")


def test_archives__are_in_the_order_of_the_passes(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    for number in (10, 9, 1):
        run_dir.archive(number).mkdir(parents=True)
    assert [path.name for path in run_dir.archives()] == ["pass-1", "pass-9", "pass-10"]


def test_write_atomic__replaces_the_whole_and_others_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    write_atomic(path, "old " * 1000)
    write_atomic(path, "neu: ü")
    assert path.read_text(encoding="utf-8") == "neu: ü"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"]


def test_write_atomic__a_full_disk_keeps_the_old_text_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, "old")

    def work() -> None:
        small_files(10)
        write_atomic(path, "x" * 100)

    assert in_child(work).startswith("OSError")
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_write_json__no_nan(tmp_path: Path, value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"a": value})
    assert list(tmp_path.iterdir()) == []


def test_append_line__one_object_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append_line(path, {"a": "x\ny\u2028", "lone": "\ud800"})
    append_line(path, {"b": 1})
    assert path.read_bytes().count(b"\n") == 2
    assert list(read_lines(path)) == [{"a": "x\ny\u2028", "lone": "?"}, {"b": 1}]


def test_append_line__a_line_of_which_only_a_part_fits_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append_line(path, {"a": 1})

    def work() -> None:
        small_files(20)
        append_line(path, {"b": "x" * 100})

    assert in_child(work).startswith("OSError")
    assert list(read_lines(path)) == [{"a": 1}], "the part is left out"


@pytest.mark.parametrize(
    "torn",
    [
        b'{"a": ',
        b"\xff\xfe\x00",
        b"[1]",
        b'"text"',
        b"",
        b"[" * 100_000,
        b'{"n": ' + b"9" * 5000 + b"}",
    ],
)
def test_read_lines__what_is_torn_is_left_out(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' + torn + b'\n{"a": 2}\n' + torn)
    assert [line["a"] for line in read_lines(path)] == [1, 2]


def test_read_lines__no_file_no_lines(tmp_path: Path) -> None:
    assert list(read_lines(tmp_path / "none")) == []


def test_locked__names_who_holds_it_and_dies_with_its_process(tmp_path: Path) -> None:
    run_dir = open_run_dir(tmp_path / "run")

    def take() -> None:
        with locked(run_dir):
            pass

    with locked(run_dir):
        said = in_child(take)
    assert f"in use by process {os.getpid()} on " in said
    assert said.startswith("NotStartedError")
    assert in_child(lambda: (locked(run_dir).__enter__(), os.kill(os.getpid(), 0))) == ""
    with locked(run_dir):
        pass


def test_utc_now__is_what_results_hold() -> None:
    now = utc_now()
    assert now.endswith("Z")
    assert len(now) == len("2026-01-01T00:00:00.000Z")


def test_write_json__is_read_back(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"ü": [1, None]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"ü": [1, None]}
