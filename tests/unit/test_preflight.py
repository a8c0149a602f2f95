"""What preflight makes of what it found; the looking itself is in tests/integration."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from specs import seed, task, tasks

from tbh_action.controller.preflight import (
    _listed,
    _pointers,
    _warnings,
    commit_of,
    in_our_words,
    known_tasks,
    on_the_hub,
)
from tbh_action.controller.prepare import _of_shard
from tbh_action.controller.run import _model_info
from tbh_action.doctor.check import ok, warn
from tbh_action.errors import SpecError
from tbh_action.harbor.tasks import TaskList
from tbh_action.policy.shard import Shard
from tbh_action.rundir import RunDir, write_json


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"env": "docker"}, True),
        ({"endpoint": "https://h/v1"}, True),
        ({"endpoint": "https://h/v1", "env": "docker"}, False),
    ],
)
def test_on_the_hub__is_anything_paid_there(options: dict[str, str], *, expected: bool) -> None:
    assert on_the_hub(seed(**options)) is expected


def test_known_tasks__are_what_was_written(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    assert known_tasks(run_dir) is None
    write_json(run_dir.tasks, tasks("a", "b").to_json())
    assert known_tasks(run_dir) == tasks("a", "b")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"tasks": [3]}', '{"tasks": [{}]}'])
def test_known_tasks__damaged_is_one_line(tmp_path: Path, text: str) -> None:
    run_dir = RunDir(tmp_path)
    run_dir.tasks.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match="is damaged; start a new run"):
        known_tasks(run_dir)


def test_commit_of__only_where_it_is_one() -> None:
    one = [task("a", git_commit="c"), task("b", git_commit="c")]
    assert commit_of(TaskList(tasks=tuple(one))) == "c"
    assert commit_of(TaskList(tasks=(*one, task("c", git_commit="d")))) is None
    assert commit_of(tasks("a")) is None
    assert commit_of(TaskList(tasks=())) is None


def test_in_our_words__says_more_than_harbor(tmp_path: Path) -> None:
    nothing = "Harbor cannot plan this job: Either datasets or tasks must be provided."
    empty = seed(path=str(tmp_path))
    assert "holds no task → --path wants a folder" in in_our_words(nothing, empty)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "task.toml").touch()
    assert (
        in_our_words(nothing, empty) == "No task is left → check --include-task and --exclude-task"
    )
    assert in_our_words("Harbor cannot plan this job: x", empty) == "Harbor cannot plan this job: x"


def test_in_our_words__gives_gits_reason(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    found = in_our_words("exit status 128", seed(repo=str(tmp_path / "none")))
    assert "does not appear to be a git repository" in found
    assert "→ check --repo" in found


def test_pointers__name_task_file_and_cure() -> None:
    found = TaskList(
        tasks=(task("a"), replace(task("demo/b"), lfs_pointers=("tests/x.bin",))),
    )
    (line,) = _pointers(found)
    assert "demo/b" in line
    assert "tests/x.bin is a pointer" in line
    assert "git lfs install" in line
    assert "/tasks/b" in line
    assert _pointers(tasks("a")) == []


def test_listed__one_line_for_one_a_list_for_more() -> None:
    assert _listed(["x → y"]) == "Nothing was started: x → y"
    assert _listed(["x", "y"]) == "Nothing was started; 2 problems:\n  - x\n  - y"


def test_warnings__of_checks_and_of_folders_that_harbor_leaves_out() -> None:
    lines = _warnings(
        [ok("a", "fine"), warn("disk", "little", "free some")],
        TaskList(tasks=(), left_out=("broken",)),
    )
    assert lines[0] == "disk: little → free some"
    assert "broken" in lines[1]
    assert len(lines) == 2


def test_of_shard__shards_are_disjoint_and_whole() -> None:
    whole = tasks(*(f"demo/t{number}" for number in range(20)))
    parts = [_of_shard(whole, Shard(index, 3)).tasks for index in (1, 2, 3)]
    names = [found.name for part in parts for found in part]
    assert sorted(names) == sorted(found.name for found in whole.tasks)
    assert _of_shard(whole, None) is whole


@pytest.mark.parametrize(
    ("context", "output", "learned", "window", "answer"),
    [
        (None, None, None, None, None),
        (1000, None, None, 1000, 1000),
        (1000, 100, None, 1000, 100),
        (1000, None, 2000, 1000, 1000),
        (None, None, 2000, 2000, 2000),
    ],
)
def test_model_info__no_window_of_a_million_tokens(
    context: int | None,
    output: int | None,
    learned: int | None,
    window: int | None,
    answer: int | None,
) -> None:
    model = seed().model.model_copy(update={"context_length": context, "max_output_tokens": output})
    info = _model_info(seed().model_copy(update={"model": model}), learned)
    if window is None:
        assert info is None
    else:
        assert info is not None
        assert (info["max_input_tokens"], info["max_output_tokens"]) == (window, answer)
